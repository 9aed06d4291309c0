"""The commands `kgd prime` and `kgd agents`: context at the start of a session, and the settings of agent hosts."""

from __future__ import annotations

import sys
from typing import Any

from kgd.client.connection import Connection
from kgd.config import Home
from kgd.errors import Invalid, KgdError, NotFound

Given = dict[str, Any]


NONE_SEEN = "none of the clients that kgd knows was found here"


def prime(given: Given, options: Given) -> int:
    """Print the context for the start of a session. Never fails, because a failing start hook would stop the session.
    If there is no context, a person gets the reason in one line, and a hook gets nothing.
    """
    shape = given.pop("hook", None)
    try:
        with Connection(Home.find(), start=_is_workspace_here() or "workspace" in given) as connection:
            answer = connection.call("prime", given)
    except KgdError as refusal:
        if shape:
            return 0
        why = str(refusal) if "workspace" in given else _why_not(refusal)
        _write(options, {"known": False, "reason": why}, f"kgd: {why}\n")
        return 0
    except Exception as defect:  # noqa: BLE001 the edge of a start hook
        sys.stderr.write(f"kgd: prime failed ({type(defect).__name__})\n")
        return 0
    from kgd.cli.terminal import clean

    text = rendered(clean(answer))
    if shape:
        _write({"json": True}, envelope(shape, text), "")
    else:
        _write(options, answer, text)
    return 0


def rendered(answer: Given) -> str:
    """The answer as Markdown."""
    parts = []
    for number, one in enumerate(answer["sections"]):
        more = [f"- and {one['more']} more"] if one.get("more") else []
        parts.append("\n".join([f"{'##' if number else '#'} {one['title']}", *one["lines"], *more]))
    return "\n\n".join(parts) + "\n"


def envelope(shape: str, text: str) -> Given:
    """The output of a start hook: Cursor's form, or the form shared by Claude Code, Codex and VS Code."""
    if shape == "cursor":
        return {"additional_context": text}
    return {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": text}}


def _is_workspace_here() -> bool:
    """Whether to start or call a daemon: a daemon is running, or this directory has a workspace."""
    from kgd.client.start import running

    if running(Home.find()):
        return True
    from pathlib import Path

    from kgd.git.layout import locate

    try:
        return locate(Path.cwd()) is not None
    except (KgdError, OSError):
        return False


def _why_not(refusal: KgdError) -> str:
    if isinstance(refusal, NotFound) or refusal.message.startswith("no kgd daemon"):
        return "this directory has no workspace; `kgd up` creates one in a code repository"
    return str(refusal)


def _write(options: Given, answer: Given, text: str) -> None:
    if options.get("json"):
        import json

        sys.stdout.write(json.dumps(answer, ensure_ascii=False, indent=None if not options.get("verb") else 2) + "\n")
    elif not options.get("quiet"):
        sys.stdout.write(text)
    sys.stdout.flush()


def agents(given: Given, options: Given) -> int:
    """`kgd agents install|uninstall|status|show`; needs no daemon."""
    from pathlib import Path

    from kgd.agents import install
    from kgd.cli import printing_running
    from kgd.cli.parameters import program

    action, dry_run = given["action"], bool(given.get("dry_run"))
    where = install.Where("user" if given.get("user") else "project", _root(Path.cwd()), program())
    if action == "show":
        return _show(printing_running.agents_shown, {"entries": _shown(where)}, options)
    names = [name for text in given.get("client", ()) for name in text.split(",")]
    if given.get("user") and given.get("project"):
        raise Invalid("--user and --project cannot be combined", next="Run the command once for each.")
    chosen = install.chosen(names, where)
    if not chosen:
        name_them = f"Name them: `kgd agents {action} --client {','.join(install.TITLES)}`"
        if action == "install":
            raise Invalid(NONE_SEEN, next=name_them)
        nothing = {"scope": where.scope, "action": action, "entries": [], "warnings": [f"{NONE_SEEN}. {name_them}"]}
        return _show(printing_running.agents, nothing, options)
    pieces = install.pieces(chosen, where, create=bool(given.get("create")))
    place = Path(Home.find().state) / install.NOTES
    notes = install.Notes.read(place, read_only=dry_run or action == "status")
    if action == "status":
        reports = install.status(pieces, notes)
    else:
        if action == "uninstall":
            rest = [name for name in install.TITLES if name not in chosen]
            pieces = install.not_shared(pieces, install.pieces(rest, where), notes)
        reports = (install.install if action == "install" else install.uninstall)(pieces, notes, dry_run=dry_run)
    answer = _reported(reports, where)
    answer.update({"action": action, **({"dry_run": True} if dry_run else {})})
    if where.scope == "project" and where.command != "kgd" and action == "install":
        answer["warnings"] = ["the project's files start `kgd`, which is not on your PATH"]
    _show(printing_running.agents, answer, options)
    refusal = next((one.refusal for one in reports if one.refusal), None)
    if refusal is None:
        return 0
    from kgd.cli.commands import EXIT_CODES

    return EXIT_CODES[refusal.code][0]


def disconnect(*, dry_run: bool) -> list[str]:
    """Remove every entry that kgd wrote into the user's own client settings; returns the files that had one."""
    from pathlib import Path

    from kgd.agents import install
    from kgd.cli.parameters import program

    where = install.Where("user", _root(Path.cwd()), program())
    notes = install.Notes.read(Path(Home.find().state) / install.NOTES, read_only=dry_run)
    done = install.uninstall(install.pieces(list(install.TITLES), where), notes, dry_run=dry_run)
    return sorted({str(one.path) for one in done if one.did == "removed"})


def _show(printer: Any, answer: Given, options: Given) -> int:
    from kgd.cli.terminal import clean

    if options.get("json"):
        _write(options, answer, "")
    elif not options.get("quiet"):
        printer(clean(answer))
    return 0


def _root(here: Any) -> Any:
    """The project's folder: the code repository's folder or, without a repository, the current directory."""
    from kgd.git.layout import WORK_TREE, code_root

    top = code_root(here) or here
    return top.parent if top.name == WORK_TREE else top


def _reported(reports: Any, where: Any) -> Given:
    entries = []
    for one in reports:
        entry: Given = {"clients": list(one.clients), "kind": one.kind, "path": str(one.path), "state": one.did}
        if one.refusal:
            entry["error"] = one.refusal.as_dict()
        if one.added:
            entry["adds"] = one.added
        entries.append(entry)
    return {"scope": where.scope, "entries": entries}


def _shown(where: Any) -> Given:
    """The settings for any other client, ready to paste."""
    from kgd.agents import entries, install

    server = entries.server(where.command)
    return {
        "mcpServers": {"mcpServers": {"kgd": server}},
        "servers": {"servers": {"kgd": {"type": "stdio", **server}}},
        "toml": entries.TomlEntry("server", ("mcp_servers", "kgd"), server).shown(),
        "start hook": install.start_command(where.command),
    }
