"""The command `kgd agents`: the settings of agent hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kgd.agents import entries, install
from kgd.cli.commands import EXIT_CODES
from kgd.cli.output import show
from kgd.cli.parameters import program
from kgd.config import Home
from kgd.errors import Invalid
from kgd.git.layout import WORK_TREE, code_root

Given = dict[str, Any]


NONE_SEEN = "none of the clients that kgd knows was found here"


def agents(given: Given, options: Given) -> int:
    """`kgd agents install|uninstall|status|show`; needs no daemon."""
    action, dry_run = given["action"], bool(given.get("dry_run"))
    where = install.Where("user" if given.get("user") else "project", _root(Path.cwd()), program())
    if action == "show":
        show("printing_running.agents_shown", {"entries": _shown(where)}, options)
        return 0
    names = [name for text in given.get("client", ()) for name in text.split(",")]
    if given.get("user") and given.get("project"):
        raise Invalid("--user and --project cannot be combined", next="Run the command once for each.")
    chosen = install.chosen(names, where)
    if not chosen:
        name_them = f"Name them: `kgd agents {action} --client {','.join(install.TITLES)}`"
        if action == "install":
            raise Invalid(NONE_SEEN, next=name_them)
        nothing = {"scope": where.scope, "action": action, "entries": [], "warnings": [f"{NONE_SEEN}. {name_them}"]}
        show("printing_running.agents", nothing, options)
        return 0
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
    answer: Given = {"scope": where.scope, "entries": list(map(_reported, reports)), "action": action}
    answer |= {"dry_run": True} if dry_run else {}
    if where.scope == "project" and where.command != "kgd" and action == "install":
        answer["warnings"] = ["the project's files start `kgd`, which is not on your PATH"]
    show("printing_running.agents", answer, options)
    refusal = next((one.refusal for one in reports if one.refusal), None)
    return EXIT_CODES[refusal.code][0] if refusal else 0


def disconnect(*, dry_run: bool) -> list[str]:
    """Remove every entry that kgd wrote into the user's own client settings; returns the files that had one."""
    where = install.Where("user", _root(Path.cwd()), program())
    notes = install.Notes.read(Path(Home.find().state) / install.NOTES, read_only=dry_run)
    done = install.uninstall(install.pieces(list(install.TITLES), where), notes, dry_run=dry_run)
    return sorted({str(one.path) for one in done if one.did == "removed"})


def _root(here: Path) -> Path:
    """The project's folder: the code repository's folder or, without a repository, the current directory."""
    top = code_root(here) or here
    return top.parent if top.name == WORK_TREE else top


def _reported(one: install.Report) -> Given:
    entry: Given = {"clients": list(one.clients), "kind": one.kind, "path": str(one.path), "state": one.did}
    more = {"error": one.refusal and one.refusal.as_dict(), "adds": one.added}
    return entry | {name: value for name, value in more.items() if value}


def _shown(where: install.Where) -> Given:
    """The settings for any other client, ready to paste."""
    server = entries.server(where.command)
    return {
        "mcpServers": {"mcpServers": {"kgd": server}},
        "servers": {"servers": {"kgd": {"type": "stdio", **server}}},
        "toml": entries.TomlEntry("server", ("mcp_servers", "kgd"), server).shown(),
        "start hook": install.start_command(where.command),
    }
