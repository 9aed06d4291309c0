"""The files of each supported host, and kgd's entries in them: servers, start hooks, rules, skills.

Formats follow the hosts' documentation: `.mcp.json` and `settings.json` of Claude Code, `mcp.json` and `hooks.json` of
Cursor, `mcp.json` and hook files of VS Code, `config.toml` and `hooks.json` of Codex.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from kgd.agents.entries import NAME, BlockEntry, Entry, FileEntry, JsonEntry, TomlEntry, hook, server
from kgd.config import host_folders
from kgd.errors import Invalid

Scope = Literal["project", "user"]
TITLES = {"claude": "Claude Code", "cursor": "Cursor", "vscode": "VS Code", "codex": "Codex"}
SECONDS = 10
"""Timeout of the start hook in seconds. The hook usually takes 0.1 s, but longer when it starts the daemon."""

BLOCK = """\
## Shared memory (kgd)

The MCP server `kgd` keeps this team's knowledge that the code cannot express. If it has a workspace for this project:

- Before you touch files, call `context` with their `paths`; before a task, with `task`. `search` finds by words.
- When you learn something (a decision and its reason, a gotcha, a rule, a failed attempt), `put` it with relations to
  its files. If it concerns a whole area, write it there with `manage_graph`.
- `kgd prime` in a shell shows a starting point.
"""
"""The text for `AGENTS.md`."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One entry of one file, for the hosts that read it. With `only_there`, a missing file is not created.

    A project's files must be `within` the project, so that a link in it cannot redirect an edit to another file.
    """

    clients: tuple[str, ...]
    path: Path
    entry: Entry
    only_there: bool = False
    within: Path | None = None


@dataclass(frozen=True, slots=True)
class HostFolders:
    """Folders of one user. `claude_json` is a file; `code` is the folder of VS Code's settings."""

    home: Path
    claude: Path
    claude_json: Path
    codex: Path
    code: Path

    @classmethod
    def find(cls) -> HostFolders:
        """The folders from the environment."""
        user, claude, codex, settings = host_folders()
        home = Path(user)
        own = Path(claude) if claude else home / ".claude"
        json = (Path(claude) if claude else home) / ".claude.json"
        return cls(home, own, json, Path(codex), Path(settings) / "Code" / "User")


@dataclass(frozen=True, slots=True)
class Where:
    """The scope of a setup. `root` is the project's folder; `command` starts kgd."""

    scope: Scope
    root: Path
    command: str
    folders: HostFolders = field(default_factory=HostFolders.find)


def chosen(names: Iterable[str], where: Where) -> tuple[str, ...]:
    """The named hosts or, without names, the hosts found here.

    Raises:
        Invalid: There is no such host.
    """
    named = list(dict.fromkeys(name.strip().lower() for name in names if name.strip()))
    if unknown := [name for name in named if name not in TITLES]:
        raise Invalid(
            f"kgd cannot set up '{unknown[0][:40]}'",
            at="--client",
            next=f"Known: {', '.join(TITLES)}; `kgd agents show` prints the settings for other clients.",
        )
    return tuple(name for name in TITLES if name in named) or seen(where)


def seen(where: Where) -> tuple[str, ...]:
    """The hosts that have configuration of this user or, in the scope ``project``, of this project."""
    folders, root = where.folders, where.root
    signs = {
        "claude": (folders.claude, folders.claude_json),
        "cursor": (folders.home / ".cursor",),
        "vscode": (folders.code,),
        "codex": (folders.codex,),
    }
    here = {
        "claude": (root / ".claude", root / ".mcp.json", root / "CLAUDE.md"),
        "cursor": (root / ".cursor",),
        "vscode": (root / ".vscode",),
        "codex": (root / ".codex",),
    }
    looked = {name: signs[name] + (here[name] if where.scope == "project" else ()) for name in TITLES}
    return tuple(name for name, paths in looked.items() if any(map(os.path.lexists, paths)))


def pieces(clients: Sequence[str], where: Where, *, create: bool = False) -> list[Piece]:
    """All entries for these hosts, in the order of the report. With `create`, missing rule files are created."""
    project, folders, root = where.scope == "project", where.folders, where.root
    command = NAME if project else where.command
    plain, named = server(command), server(command, type="stdio")
    found: list[Piece] = []

    def add(client: str, path: Path, entry: Entry) -> None:
        found.append(Piece((client,), path, entry))

    if "claude" in clients:
        add("claude", root / ".mcp.json" if project else folders.claude_json, _servers("mcpServers", plain))
        add("claude", (root / ".claude" if project else folders.claude) / "settings.json", _start(command))
    if "cursor" in clients:
        folder = (root if project else folders.home) / ".cursor"
        add("cursor", folder / "mcp.json", _servers("mcpServers", plain))
        add("cursor", folder / "hooks.json", _cursor_start(command))
    if "vscode" in clients:
        add("vscode", (root / ".vscode" if project else folders.code) / "mcp.json", _servers("servers", named))
        if "claude" not in clients:  # VS Code reads Claude Code's settings too: the hook would run twice
            folder = root / ".github" if project else folders.home / ".copilot"
            add("vscode", folder / "hooks" / "kgd.json", _flat_start(command))
    if "codex" in clients:
        folder = root / ".codex" if project else folders.codex
        add("codex", folder / "config.toml", TomlEntry("server", ("mcp_servers", NAME), plain))
        add("codex", folder / "hooks.json", _start(command))
    found += [*_rules(clients, where, create), *_skills(clients, where)]
    return [replace(one, within=root) for one in found] if project else found


def _rules(clients: Sequence[str], where: Where, create: bool) -> Iterator[Piece]:
    """The block for each rule file, except files that only include `AGENTS.md`."""
    folders, root = where.folders, where.root
    common = tuple(name for name in clients if name != "claude")
    claude = tuple(name for name in clients if name == "claude")
    if where.scope == "user":
        files = [
            (folders.codex / "AGENTS.md", tuple(name for name in clients if name == "codex")),
            (folders.claude / "CLAUDE.md", claude),
        ]
    elif _leads_to(root / "CLAUDE.md", root / "AGENTS.md"):
        files = [(root / "AGENTS.md", tuple(clients))]
    else:
        files = [(root / "AGENTS.md", common), (root / "CLAUDE.md", claude)]
    for path, readers in files:
        if readers:
            yield Piece(tuple(readers), path, BlockEntry("rules", BLOCK), only_there=not create)


def _leads_to(path: Path, other: Path) -> bool:
    """Whether a rule file is a link to another file, or includes it with ``@NAME``."""
    if not path.is_file():
        return False
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    same = os.path.realpath(path) == os.path.realpath(other)
    return same or any(line.strip() in (f"@{other.name}", f"@./{other.name}") for line in lines)


def _skills(clients: Sequence[str], where: Where) -> Iterator[Piece]:
    """The skill for Claude Code's own folder, and for the folder that the other three hosts share."""
    project = where.scope == "project"
    common = tuple(name for name in clients if name != "claude")
    if "claude" in clients:
        folder = where.root / ".claude" if project else where.folders.claude
        yield Piece(("claude",), folder / "skills" / NAME / "SKILL.md", FileEntry("skill", skill()))
    if common:
        folder = (where.root if project else where.folders.home) / ".agents"
        yield Piece(common, folder / "skills" / NAME / "SKILL.md", FileEntry("skill", skill()))


def _servers(key: str, value: dict[str, object]) -> JsonEntry:
    return JsonEntry("server", (key,), value, NAME)


def start_command(command: str) -> str:
    """The command of a start hook in Claude Code's format."""
    return hook(shlex.quote(command))


def _start(command: str) -> JsonEntry:
    """A start hook in the format of Claude Code and Codex."""
    run = {"type": "command", "command": start_command(command), "timeout": SECONDS}
    return JsonEntry("start hook", ("hooks", "SessionStart"), {"hooks": [run]})


def _flat_start(command: str) -> JsonEntry:
    run = {"type": "command", "command": start_command(command), "timeout": SECONDS}
    return JsonEntry("start hook", ("hooks", "SessionStart"), run)


def _cursor_start(command: str) -> JsonEntry:
    run = {"command": hook(shlex.quote(command), "cursor")}
    return JsonEntry("start hook", ("hooks", "sessionStart"), run, around=(("version", 1),))


def skill() -> str:
    """The content of the skill file."""
    return (Path(__file__).parent / "SKILL.md").read_text(encoding="utf-8")
