"""The command that replaces an old copy of a workspace after `kgd forget`."""

from __future__ import annotations

import shlex

from kgd.git.discovery import setting
from kgd.git.layout import CODE_BRANCH, ORIGIN, OWN_BRANCH, RETIRED, Layout
from kgd.git.remote_settings import Remote

LONGEST = 360
"""Characters of a command that an error message can hold: a cut command could delete the wrong folder."""


def replacement(layout: Layout, workspace: str, remote: Remote) -> str:
    """The next step that replaces this copy: a shell command, or the page that explains it if it is too long."""
    command = command_for(layout, workspace, remote)
    if len(command) > LONGEST:
        return "Replace this copy as docs/forget.md shows."
    return f"Save unpushed changes (docs/forget.md), then `{command}`"


def command_for(layout: Layout, workspace: str, remote: Remote) -> str:
    """The shell command that deletes this copy, also the one that `kgd uninstall` keeps, and gets the workspace from
    the remote.

    A clone of the code has its own copy of the branch, from which `kgd up` would make the old workspace again; the
    command fetches it first.
    """
    folder = layout.folder.parent if layout.in_code else layout.folder
    here, usual = shlex.quote(str(folder)), CODE_BRANCH if layout.in_code else OWN_BRANCH
    add = [remote.name, remote.url.text]
    add += ["--ref", remote.ref] if remote.ref != usual else []
    add += ["--token", remote.token] if remote.token else []
    steps = [f"cd {here}", "kgd uninstall"]
    if layout.in_code:
        kept, code = layout.git_dir.with_name(RETIRED), layout.git_dir.parent
        name = str(kept.relative_to(folder)) if kept.is_relative_to(folder) else str(kept)
        origin = setting(code, f"remote.{ORIGIN}.url")
        steps.append(f"rm -rf {shlex.quote(name)}*")
        steps += [f"git fetch {ORIGIN}"] if origin else []
        steps.append(f"kgd up --id {workspace}")
        if origin == remote.url.text and len(add) == 2:
            return " && ".join([*steps, "kgd share"])
    else:
        form = "--bare" if layout.is_bare else "--standalone"
        name = shlex.quote(f"./{folder.name}")
        steps += ["cd ..", f"rm -rf {name}", f"mkdir {name}", f"cd {name}", f"kgd up {form} --id {workspace}"]
    return " && ".join([*steps, f"kgd remote add {shlex.join(add)}"])
