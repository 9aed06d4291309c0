"""Installation of kgd's merge settings and hooks in a repository, and their removal.

`install` writes a settings file, includes it in the repository's configuration with one line, and writes the hooks. An
existing hook is kept and run. ``core.hooksPath`` is never set, and never followed out of the repository. `remove`
undoes everything, byte for byte.

The hooks are short POSIX shell scripts that call ``kgd hook NAME``. The repository's ``hooks/`` holds the same texts
for a `kgd` on the PATH (``python -m kgd.hooks.install hooks``); `install` writes the program's path into them, since a
graphical git or a service has another PATH. Each script first runs the hook that it replaced. If kgd is missing, a
client's check passes with a message, and a server's check refuses.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kgd.errors import KgdError
from kgd.git.discovery import setting
from kgd.git.files import replace
from kgd.hooks import clone as clones
from kgd.hooks.clone import Clone
from kgd.hooks.driver import INNER

FOLDER = "kgd-install"
"""kgd's folder in the git directory. Apart from it, kgd adds only two lines to the repository's config."""
STRATEGY = "git-merge-kgd"

_CONFIG, _BEFORE = f"{FOLDER}/config", f"{FOLDER}/config.before"
_SECTION, _LINE = b"[include]\n", f"\tpath = {_CONFIG}\n".encode()

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


@dataclass(slots=True)
class Report:
    """Changes made, or planned in a dry run. Paths are relative to the git directory; `settings` apply afterwards."""

    place: Path
    hooks: list[str] = field(default_factory=list)
    chained: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    changed: bool = False


def install(
    clone: Clone, program: Sequence[str], environment: Mapping[str, str], *, strategy: str | None, dry_run: bool = False
) -> Report:
    """Set up the clone, or update the setup of an earlier kgd. Repeating it changes nothing.

    Args:
        program: The command that starts this kgd, with its path.
        environment: The user's environment, to find their own git settings.
        strategy: Path of `git-merge-kgd`, or None if it is not on the PATH, the only place where git finds strategies.
    """
    report = Report(clone.common_dir)
    if clone.top is not None:
        _merge_settings(clone, program, environment, strategy, report)
    folder = _hooks_folder(clone, environment, report)
    for name in CLIENT if clone.top is not None else SERVER:
        if folder is not None:
            _hook(folder, name, script(name, program).encode(), report, dry_run)
    if clone.top is None:
        _server_settings(clone, report)
    if report.settings:
        _write_settings(clone.common_dir, report, dry_run)
    return report


def pin(git_dir: Path, settings: Mapping[str, str]) -> None:
    """Add settings to the settings of `install`; `remove` removes them as well. Raises OSError."""
    _write_settings(git_dir, Report(git_dir, settings=dict(settings)), dry_run=False)


def remove(git_dir: Path, *, dry_run: bool = False) -> Report:
    """Remove everything that `install` added to this repository, and restore its previous state."""
    report = Report(git_dir)
    hooks = git_dir / "hooks"
    for name in (*CLIENT, *SERVER):
        ours, before = hooks / name, hooks / (name + BEFORE)
        kept = os.path.lexists(before)
        if not _is_our_hook(ours):
            if kept:
                report.warnings.append(f"hooks/{name} has been replaced since; the earlier hook is {before.name}")
            continue
        report.changed = True
        report.hooks.append(name)
        if kept:
            report.chained.append(name)
        if not dry_run:
            if kept:
                before.replace(ours)
            else:
                ours.unlink()
    config = git_dir / "config"
    content = config.read_bytes()
    restored = _without_line(content, git_dir)
    if restored != content or (git_dir / FOLDER).exists():
        report.changed = True
    if not dry_run:
        if restored != content:
            replace(config, restored, mode=config.stat().st_mode & 0o777)
        shutil.rmtree(git_dir / FOLDER, ignore_errors=True)
    return report


# ---- settings


def _merge_settings(
    clone: Clone, program: Sequence[str], environment: Mapping[str, str], strategy: str | None, report: Report
) -> None:
    command = shlex.join([*program, "merge-driver"]).replace("%", "%%")
    report.settings = {
        "merge.kgd.name": "node files, field by field",
        "merge.kgd.driver": f"{command} %O %A %B %P",
        "merge.kgd.recursive": "kgd-base",
        "merge.kgd-base.name": "node files of merge bases",
        "merge.kgd-base.driver": f"{command} {INNER} %O %A %B %P",
    }
    if strategy:
        report.settings["pull.twohead"] = "kgd"
    else:
        report.warnings.append(
            f"{STRATEGY} is not on your PATH, so git merges file by file: it will stop if one side deleted a node "
            "that the other edited. Put the folder of the program kgd on the PATH and run `kgd install` again"
        )
    decided = [origin for name in ("pull.rebase", "pull.ff") for origin, _ in clone.configured(name, environment)]
    if all(FOLDER in origin for origin in decided):
        report.settings["pull.rebase"] = "false"  # without it, `git pull` stops and asks for a choice


def _server_settings(clone: Clone, report: Report) -> None:
    """Record the guarded branch, so that later pushes of other branches cannot change it."""
    ours = setting(clone.common_dir / FOLDER, clones.KEY)
    if ours is None and setting(clone.common_dir, clones.KEY):
        return  # configured by the server's administrator
    try:
        found = ours or clones.found_in(clone.open(), clone.common_dir)
    except KgdError as error:
        report.warnings.append(f"{error.message} ({error.at}), and every push is refused. {error.next}")
        return
    if found:
        report.settings[clones.KEY] = found


def _write_settings(git_dir: Path, report: Report, dry_run: bool) -> None:
    data = _config_text(report.settings)
    target, config = git_dir / _CONFIG, git_dir / "config"
    content = config.read_bytes()
    if _LINE in content and target.exists() and target.read_bytes() == data:
        return
    report.changed = True
    if dry_run:
        return
    target.parent.mkdir(exist_ok=True)
    replace(target, data)
    if _LINE not in content:
        replace(git_dir / _BEFORE, content)
        replace(config, content + _added(content), mode=config.stat().st_mode & 0o777)


def _added(content: bytes) -> bytes:
    return (b"" if not content or content.endswith(b"\n") else b"\n") + _SECTION + _LINE


def _without_line(content: bytes, git_dir: Path) -> bytes:
    """The config before `install`; if it has been changed since, the current config without kgd's line."""
    if _LINE not in content:
        return content
    try:
        before = (git_dir / _BEFORE).read_bytes()
    except OSError:
        before = None
    if before is not None and content == before + _added(before):
        return before
    at = content.index(_LINE)
    left, right = content[:at], content[at + len(_LINE) :]
    alone = left.endswith(_SECTION) and not right.startswith((b"\t", b" "))
    return (left.removesuffix(_SECTION) if alone else left) + right


def _config_text(settings: dict[str, str]) -> bytes:
    lines = ["# Made by `kgd install`; `kgd uninstall` removes it."]
    for key, value in settings.items():
        section, _, name = key.rpartition(".")
        first, _, second = section.partition(".")
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'[{first} "{second}"]' if second else f"[{first}]")
        lines.append(f'\t{name} = "{quoted}"')
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")


# ---- hooks


def _hooks_folder(clone: Clone, environment: Mapping[str, str], report: Report) -> Path | None:
    """The folder of this repository's hooks; None if ``core.hooksPath`` is set."""
    found = clone.configured("core.hooksPath", environment)
    if not found:
        return clone.common_dir / "hooks"
    named = found[-1][1]
    report.warnings.append(
        f"core.hooksPath is set to {named} and is not changed: no hook was installed. Call `kgd hook NAME` from the "
        "hooks there, as docs/git.md shows"
    )
    return None


def _hook(folder: Path, name: str, text: bytes, report: Report, dry_run: bool) -> None:
    target, before = folder / name, folder / (name + BEFORE)
    report.hooks.append(name)
    foreign = os.path.lexists(target) and not _is_our_hook(target)
    if foreign or os.path.lexists(before):
        report.chained.append(name)
    if not foreign and target.exists() and target.read_bytes() == text and os.access(target, os.X_OK):
        return
    if foreign and os.path.lexists(before):
        report.hooks.remove(name)
        report.warnings.append(f"hooks/{name} and {before.name} both exist and neither is kgd's: they are not changed")
        return
    report.changed = True
    if dry_run:
        return
    folder.mkdir(exist_ok=True)
    if foreign:
        target.rename(before)
    replace(target, text, mode=0o755)


def _is_our_hook(path: Path) -> bool:
    try:
        return not path.is_symlink() and path.read_bytes()[:200].startswith(b"#!/bin/sh\n" + MARK.encode())
    except OSError:
        return False


def script(name: str, program: Sequence[str] = ("kgd",)) -> str:
    """The script of a hook; `program` is the command that starts kgd."""
    body = _GUARDS if name == "pre-receive" else _CHECKS if name.startswith("pre-") else _TELLS
    command = shlex.join(program) if list(program) != ["kgd"] else "command kgd"
    head = _HEAD.format(mark=MARK, work=_WORK[name], before=BEFORE, program=command)
    return head + body.format(name=name)


def main(folder: Path) -> None:
    """Write all hooks into a folder."""
    for name in (*CLIENT, *SERVER):
        (folder / name).write_text(script(name))
        (folder / name).chmod(0o755)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
