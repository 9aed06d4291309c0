"""Commands that connect plain git with kgd: `install`, its removal, and hooks. None of them starts a daemon."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from kgd.config import Home, git_variables, person_environment, pushing_as
from kgd.errors import Invalid, KgdError, NotFound

Given = dict[str, Any]
BLOCKED = 2
"""Exit code of a hook that stops git's operation. Any other nonzero code means that kgd itself failed."""
SHOWN = 20


def install(given: Given) -> Given:
    """The answer of `kgd install`."""
    from kgd.hooks import clone, install

    here = clone.of_directory(Path.cwd())
    report = install.install(
        here,
        program(),
        person_environment(),
        strategy=shutil.which(install.STRATEGY),
        dry_run=bool(given.get("dry_run")),
    )
    answer: Given = {
        "git_dir": str(report.place),
        "server": here.top is None,
        "changed": report.changed,
        "hooks": report.hooks,
        "chained": report.chained,
        "settings": report.settings,
        "warnings": report.warnings,
    }
    return {**answer, "dry_run": True} if given.get("dry_run") else answer


def remove_here(given: Given) -> Given | None:
    """Undo `kgd install` in a clone without a workspace; None if not installed, or if a daemon serves the workspace."""
    from kgd.git.layout import locate
    from kgd.hooks import clone, install

    if locate(Path.cwd()) is not None:
        return None

    try:
        here = clone.of_directory(Path.cwd())
    except KgdError:
        return None
    report = install.remove(here.common_dir, dry_run=bool(given.get("dry_run")))
    if not report.changed:
        return None
    gone: Given = {
        "git_dir": str(report.place),
        "hooks": report.hooks,
        "chained": report.chained,
        "warnings": report.warnings,
    }
    return {**gone, "dry_run": True} if given.get("dry_run") else gone


def remove_from(git_dirs: list[str], *, dry_run: bool = False) -> list[str]:
    """Undo `kgd install` in the repositories of removed workspaces; returns the repositories that had it."""
    from kgd.hooks import install

    return [place for place in git_dirs if install.remove(Path(place), dry_run=dry_run).changed]


def hook(words: list[str]) -> int:
    """`kgd hook NAME [ARGUMENTS]`, as git starts it."""
    name, cwd, variables = (words or [""])[0], Path.cwd(), git_variables()
    if name.startswith("post-"):
        return _tell(cwd, variables)
    if name in ("pre-commit", "pre-merge-commit"):
        return _check(cwd, variables)
    if name == "pre-receive":
        return _receive(cwd, variables)
    raise Invalid(f"'{name[:40]}' is not a hook of kgd", next="See docs/git.md.")


def _check(cwd: Path, variables: dict[str, str]) -> int:
    from kgd.git.program import GitFailed
    from kgd.hooks import commit_check

    try:
        found = commit_check.check_index(cwd, variables)
    except NotFound:
        return 0  # the branch has no workspace: nothing to check
    except GitFailed as failed:
        sys.stderr.write(f"kgd: nothing was checked: {failed.said}\n")
        return 0
    for said in found.misspelt[:SHOWN]:
        sys.stderr.write(f"kgd: {said}\n")
    if found.inherited:
        sys.stderr.write("kgd: the other side of this merge has files that kgd cannot serve; fix them afterwards\n")
        _list(found.inherited)
    if found.own:
        sys.stderr.write("kgd: this commit was stopped, because kgd cannot serve these files:\n")
        _list(found.own)
        sys.stderr.write("     Fix them and `git add` them; `git commit --no-verify` commits them unchanged.\n")
    return BLOCKED if found.own else 0


def _receive(cwd: Path, variables: dict[str, str]) -> int:
    """Any failure refuses the push: git accepts it only if the hook succeeds."""
    try:
        from kgd.hooks import push_check

        push_check.pre_receive(sys.stdin, cwd, variables, pushing_as(), time.time())
    except KgdError as refusal:
        sys.stderr.write(f"kgd: {refusal}\n")
    except Exception as defect:  # noqa: BLE001 the edge of a request: no internals for the pusher
        sys.stderr.write(f"kgd: this push could not be checked, so it is refused ({type(defect).__name__})\n")
    else:
        return 0
    return BLOCKED


def _list(refusals: list[KgdError]) -> None:
    for one in refusals[:SHOWN]:
        then = f". {one.next}" if one.next else ""
        sys.stderr.write(f"     {one.at}: {one.message}{then}\n")
    if len(refusals) > SHOWN:
        sys.stderr.write(f"     and {len(refusals) - SHOWN} more\n")


def _tell(cwd: Path, variables: dict[str, str]) -> int:
    """Notify the daemon, if one is running, that a branch moved."""
    home = Home.find()
    if not os.path.exists(home.socket):
        return 0
    from kgd.client.connection import Connection
    from kgd.hooks.clone import of_command

    with contextlib.suppress(KgdError), Connection(home, "git-hook", start=False) as daemon:
        daemon.call("notice", {"git_dir": str(of_command(cwd, variables).common_dir)})
    return 0


def program() -> list[str]:
    """The command by which git starts this kgd with any PATH. `-P`: never import from the current directory."""
    return [os.path.abspath(sys.executable), "-P", "-m", "kgd.cli"]
