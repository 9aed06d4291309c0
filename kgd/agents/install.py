"""Setup and removal of kgd in hosts: each file is checked, minimally edited, and reported.

The formats of the files follow the hosts' documentation: `.mcp.json` and `settings.json` of Claude Code, `mcp.json` and
`hooks.json` of Cursor, `mcp.json` and hook files of VS Code, `config.toml` and `hooks.json` of Codex.

A broken or read-only file is reported, and the other files are still edited. A file keeps its byte order mark and its
mode. Written entries are noted in kgd's state, since some hosts reformat their files; without a note kgd recognises its
entries by their text.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from kgd.agents.entries import NAME, BlockEntry, Entry, FileEntry, JsonEntry, State, TomlEntry, hook, server
from kgd.config import host_folders
from kgd.errors import Forbidden, Invalid, KgdError, Limit, Unavailable
from kgd.git import files

LARGEST = 32 << 20
"""Largest size in bytes; some hosts keep whole histories in their files."""
BOM = "\ufeff"

NOTES = "agents.json"
"""The file of the notes in the folder of kgd's state."""


@dataclass(frozen=True, slots=True)
class HostFile:
    """A host's file. `place` is its path with links resolved; `text` is None if the file does not exist."""

    path: Path
    place: Path
    text: str | None
    bom: str = ""


def read(path: Path) -> HostFile:
    """Read a file; follows links.

    Raises:
        Invalid: The file is not UTF-8, is not a plain file, or is a broken link.
        Limit: The file is larger than `LARGEST`.
        Unavailable: The file cannot be read.
    """
    place = Path(os.path.realpath(path))
    try:
        if not place.exists():
            if path.is_symlink():
                raise Invalid("this link is broken", at=str(path))
            return HostFile(path, place, None)
        if not place.is_file():
            raise Invalid("this is not a plain file", at=str(path))
        if place.stat().st_size > LARGEST:
            raise Limit(f"this file is larger than {LARGEST >> 20} MiB", at=str(path))
        text = place.read_bytes().decode()
    except UnicodeDecodeError:
        raise Invalid("this file is not UTF-8", at=str(path)) from None
    except OSError as error:
        raise Unavailable(f"this file cannot be read: {error.strerror}", at=str(path)) from None
    bom = BOM if text.startswith(BOM) else ""
    return HostFile(path, place, text.removeprefix(BOM), bom)


def write(file: HostFile, text: str) -> list[Path]:
    """Replace the file atomically; returns the folders that were created for it.

    Raises:
        Forbidden: The file, or its folder, is read-only.
        Unavailable: Writing failed, or the file has changed since it was read.
    """
    if read(file.path) != file:
        raise Unavailable("another program is writing this file", at=str(file.path), next="Try again.")
    mode = 0o644
    made = [folder for folder in file.place.parents if not folder.exists()]
    try:
        file.place.parent.mkdir(parents=True, exist_ok=True)
        if file.text is not None:
            mode = stat.S_IMODE(file.place.stat().st_mode)
            if not mode & stat.S_IWUSR:
                raise Forbidden("this file is read-only", at=str(file.path), next="Make it writable and try again.")
        files.replace(file.place, (file.bom + text).encode(), mode=mode)
        file.place.chmod(mode)
    except OSError as error:
        raise Unavailable(f"this file cannot be written: {error.strerror}", at=str(file.path)) from None
    return made


def delete(file: HostFile, made: list[Path]) -> None:
    """Delete a created file, and the folders in `made` above it if they are empty.

    Raises:
        Unavailable: Deleting failed.
    """
    try:
        file.place.unlink()
    except OSError as error:
        raise Unavailable(f"this file cannot be removed: {error.strerror}", at=str(file.path)) from None
    for folder in sorted(made, key=lambda one: len(one.parts), reverse=True):
        if file.place.is_relative_to(folder):
            try:
                folder.rmdir()
            except OSError:
                return


Did = Literal["added", "updated", "removed", "present", "absent", "outdated", "own", "no file", "refused"]


@dataclass(frozen=True, slots=True)
class Report:
    """The result for one entry, or the plan of a dry run. `added` is the inserted text."""

    clients: tuple[str, ...]
    kind: str
    path: Path
    did: Did
    refusal: KgdError | None = None
    added: str = ""


@dataclass(slots=True)
class Notes:
    """A record of kgd's edits: kinds of entries by file, and created folders."""

    path: Path
    entries: dict[str, list[str]] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path, *, read_only: bool = False) -> Notes:
        """The notes; empty if missing or damaged. A damaged file is set aside, unless `read_only`."""

        def parse(found: Any) -> Notes:
            entries = {str(place): [str(kind) for kind in kinds] for place, kinds in found["entries"].items()}
            return cls(path, entries, [str(one) for one in found["folders"]])

        return files.read_state(path, parse, read_only=read_only) or cls(path)

    def write(self) -> None:
        if not self.entries and not self.folders:
            self.path.unlink(missing_ok=True)
            return
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = json.dumps({"entries": self.entries, "folders": self.folders}, indent=1)
        write(read(self.path), text)

    def knows(self, piece: Piece, file: HostFile) -> bool:
        return piece.entry.kind in self.entries.get(str(file.place), ())

    def keep(self, piece: Piece, file: HostFile, made: Sequence[Path]) -> None:
        kinds = self.entries.setdefault(str(file.place), [])
        kinds += [piece.entry.kind] if piece.entry.kind not in kinds else []
        self.folders += [str(one) for one in made if str(one) not in self.folders]

    def forget(self, piece: Piece, file: HostFile) -> None:
        kinds = [kind for kind in self.entries.pop(str(file.place), ()) if kind != piece.entry.kind]
        if kinds:
            self.entries[str(file.place)] = kinds
        self.folders = [one for one in self.folders if os.path.isdir(one)]


def is_set_up(state: str) -> bool:
    """Whether entries that kgd wrote for a host are left. `state` is the folder of kgd's state."""
    return bool(Notes.read(Path(state) / NOTES, read_only=True).entries)


def status(pieces: Sequence[Piece], notes: Notes) -> list[Report]:
    """The state of each entry."""
    return [_one(piece, lambda piece=piece: _status(piece, notes)) for piece in pieces]


def install(pieces: Sequence[Piece], notes: Notes, *, dry_run: bool = False) -> list[Report]:
    """Add missing entries and update outdated ones."""
    reports = [_one(piece, lambda piece=piece: _install(piece, notes, dry_run)) for piece in pieces]
    _note(notes, dry_run)
    return reports


def uninstall(pieces: Sequence[Piece], notes: Notes, *, dry_run: bool = False) -> list[Report]:
    """Remove kgd's entries and restore the files byte for byte."""
    reports = [_one(piece, lambda piece=piece: _uninstall(piece, notes, dry_run)) for piece in pieces]
    _note(notes, dry_run)
    return reports


def not_shared(pieces: Sequence[Piece], of_others: Sequence[Piece], notes: Notes) -> list[Piece]:
    """The pieces in files that no other connected host reads; shared rules and skills stay."""
    there = {
        report.clients[0]
        for report in status([one for one in of_others if one.entry.kind == "server"], notes)
        if report.did in ("present", "outdated", "own")
    }
    shared = {one.path for one in of_others if there.intersection(one.clients)}
    return [one for one in pieces if one.path not in shared]


def _read(piece: Piece) -> HostFile:
    """The piece's file.

    Raises:
        Invalid: The file is a link that points outside its project.
        KgdError: As in `read`.
    """
    file = read(piece.path)
    if piece.within is not None and not file.place.is_relative_to(os.path.realpath(piece.within)):
        raise Invalid("this link points outside the project", at=str(piece.path), next="Replace it with a file.")
    return file


def _status(piece: Piece, notes: Notes) -> Did:
    file = _read(piece)
    if file.text is None:
        return "no file" if piece.only_there else "absent"
    return _state(piece, file, notes)


def _install(piece: Piece, notes: Notes, dry_run: bool) -> Did:
    file = _read(piece)
    if file.text is None and piece.only_there:
        return "no file"
    state: State = "absent" if file.text is None else _state(piece, file, notes)
    if state in ("present", "own"):
        return state
    text = piece.entry.put(file.text)
    if not dry_run:
        notes.keep(piece, file, write(file, text))
    return "updated" if state == "outdated" else "added"


def _uninstall(piece: Piece, notes: Notes, dry_run: bool) -> Did:
    file = _read(piece)
    if file.text is None:
        return "absent"
    state = _state(piece, file, notes)
    if state in ("absent", "own"):
        return state
    text = piece.entry.taken(file.text)
    if not dry_run:
        if text is None:
            delete(file, [Path(one) for one in notes.folders])
        else:
            write(file, text)
        notes.forget(piece, file)
    return "removed"


def _state(piece: Piece, file: HostFile, notes: Notes) -> State:
    assert file.text is not None
    return piece.entry.state(file.text, known=notes.knows(piece, file))


def _one(piece: Piece, act: Any) -> Report:
    try:
        did: Did = act()
    except KgdError as refusal:
        at = refusal.at if refusal.at.startswith("/") else f"{piece.path}{f', {refusal.at}' if refusal.at else ''}"
        named = type(refusal)(refusal.message, at="", next=refusal.next)
        named.at = at
        return Report(piece.clients, piece.entry.kind, piece.path, "refused", named)
    added = piece.entry.shown() if did in ("added", "updated") else ""
    return Report(piece.clients, piece.entry.kind, piece.path, did, added=added)


def _note(notes: Notes, dry_run: bool) -> None:
    if not dry_run:
        with contextlib.suppress(KgdError, OSError):  # the edits have been made; the notes are optional
            notes.write()


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
        """The folders that the environment sets, or the usual ones."""
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
            add("vscode", folder / "hooks" / "kgd.json", _start(command, flat=True))
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


def _start(command: str, *, flat: bool = False) -> JsonEntry:
    """A start hook in the format of Claude Code and Codex or, if it is `flat`, of VS Code."""
    run = {"type": "command", "command": start_command(command), "timeout": SECONDS}
    return JsonEntry("start hook", ("hooks", "SessionStart"), run if flat else {"hooks": [run]})


def _cursor_start(command: str) -> JsonEntry:
    run = {"command": hook(shlex.quote(command), "cursor")}
    return JsonEntry("start hook", ("hooks", "sessionStart"), run, around=(("version", 1),))


def skill() -> str:
    """The content of the skill file."""
    return (Path(__file__).parent / "SKILL.md").read_text(encoding="utf-8")
