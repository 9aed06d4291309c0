"""The texts of the git hooks: short POSIX shell scripts that call ``kgd hook NAME``.

The repository's ``hooks/`` holds the same texts for a `kgd` on the PATH (``python -m kgd.hooks.scripts hooks``);
`kgd install` writes the program's path into them, since a graphical git or a service has another PATH. Each script
first runs the hook that it replaced. If kgd is missing, a client's check passes with a message, and a server's check
refuses.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

MARK = "# A hook of kgd"
"""Beginning of the second line in each of kgd's hooks."""
BEFORE = ".before-kgd"
"""Suffix for the name of an earlier hook."""

_WORK = {
    "pre-commit": "checks the node files of a commit before it is made",
    "pre-merge-commit": "checks the node files of a merge before it is made",
    "post-commit": "notifies the daemon of a commit",
    "post-merge": "notifies the daemon of a merge",
    "post-checkout": "tells the daemon that files were checked out",
    "post-rewrite": "tells the daemon that commits were rewritten",
    "pre-receive": "checks the changes of a push, and refuses the whole push if any of them is not allowed",
    "post-receive": "notifies the daemon of a push",
}
CLIENT = ("pre-commit", "pre-merge-commit", "post-commit", "post-merge", "post-checkout", "post-rewrite")
SERVER = ("pre-receive", "post-receive")

_HEAD = """\
#!/bin/sh
{mark}: {work} (docs/git.md).
# Installed by `kgd install`; `kgd uninstall` removes it and restores an earlier hook.
before="$0{before}"
kgd() {{ {program} "$@"; }}
"""
_CHECKS = """\
if [ -x "$before" ]; then "$before" "$@" || exit; fi
kgd hook {name} "$@"
case $? in
0) exit 0 ;;
1 | 126 | 127) echo "kgd is missing or broken here, so nothing was checked; \\`kgd install\\` fixes it" >&2 && exit 0 ;;
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
    """The script of a hook; `program` is the command that starts kgd."""
    body = _GUARDS if name == "pre-receive" else _CHECKS if name.startswith("pre-") else _TELLS
    command = shlex.join(program) if list(program) != ["kgd"] else "command kgd"
    head = _HEAD.format(mark=MARK, work=_WORK[name], before=BEFORE, program=command)
    return head + body.format(name=name)


def is_ours(data: bytes) -> bool:
    return data.startswith(b"#!/bin/sh\n" + MARK.encode())


def main(folder: Path) -> None:
    """Write all hooks into a folder."""
    for name in (*CLIENT, *SERVER):
        (folder / name).write_text(text(name))
        (folder / name).chmod(0o755)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
