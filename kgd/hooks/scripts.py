"""This file is where the texts of the hooks are: POSIX shell, a few lines each, that call ``kgd hook NAME``.

``hooks/`` of the repository holds the same texts for a `kgd` on the PATH (``python -m kgd.hooks.scripts hooks``);
`kgd install` names the program by its place, since a graphical git or a service has another PATH. Each runs a hook that
was there before, and says so where kgd is missing: what checks a person's commit then lets it pass, what guards a
server then refuses.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

MARK = "# A hook of kgd"
"""How the second line of every hook of ours begins."""
BEFORE = ".before-kgd"
"""Added to the name of a hook that was there before ours."""

_WORK = {
    "pre-commit": "checks the node files of a commit before it is made",
    "pre-merge-commit": "checks the node files of a merge before it is made",
    "post-commit": "tells the daemon that there is a commit",
    "post-merge": "tells the daemon that there is a merge",
    "post-checkout": "tells the daemon that files were checked out",
    "post-rewrite": "tells the daemon that commits were rewritten",
    "pre-receive": "checks what a push changes, and refuses all of it where something must not be",
    "post-receive": "tells the daemon that there was a push",
}
CLIENT = ("pre-commit", "pre-merge-commit", "post-commit", "post-merge", "post-checkout", "post-rewrite")
SERVER = ("pre-receive", "post-receive")

_HEAD = """\
#!/bin/sh
{mark}: {work} (docs/git.md).
# `kgd install` puts it in place; `kgd uninstall` takes it away and brings back what was here.
before="$0{before}"
kgd() {{ {program} "$@"; }}
"""
_CHECKS = """\
if [ -x "$before" ]; then "$before" "$@" || exit; fi
kgd hook {name} "$@"
case $? in
0) exit 0 ;;
1 | 126 | 127) echo "kgd is missing or broken here, so nothing was checked; \\`kgd install\\` mends it" >&2 && exit 0 ;;
*) exit 1 ;;
esac
"""
_TELLS = """\
(kgd hook {name} "$@" </dev/null >/dev/null 2>&1 &)
if [ -x "$before" ]; then exec "$before" "$@"; fi
"""
_GUARDS = """\
updates=$(cat)
if [ -x "$before" ]; then printf '%s\\n' "$updates" | "$before" "$@" || exit; fi
printf '%s\\n' "$updates" | kgd hook {name} "$@"
case $? in
0) exit 0 ;;
1 | 126 | 127) echo "kgd is missing or broken on this server, so nothing was checked and nothing is taken" >&2 ;;
esac
exit 1
"""


def text(name: str, program: Sequence[str] = ("kgd",)) -> str:
    """The hook of that name; `program` is how kgd is started."""
    body = _GUARDS if name == "pre-receive" else _CHECKS if name.startswith("pre-") else _TELLS
    command = shlex.join(program) if list(program) != ["kgd"] else "command kgd"
    head = _HEAD.format(mark=MARK, work=_WORK[name], before=BEFORE, program=command)
    return head + body.format(name=name)


def is_ours(data: bytes) -> bool:
    return data.startswith(b"#!/bin/sh\n" + MARK.encode())


def main(folder: Path) -> None:
    """Write all of them into a folder."""
    for name in (*CLIENT, *SERVER):
        (folder / name).write_text(text(name))
        (folder / name).chmod(0o755)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
