"""The kinds of entries in hosts' files, with insertion and removal.

An entry is recognised by its exact text. An entry with the same name but different content belongs to the user. An
entry with a different layout also belongs to the user, unless kgd's notes (`known`) show that kgd wrote it and the host
reformatted the file.

Every entry has a `kind` for display and four methods. Texts have no byte order mark; None means that there is no file.

- `shown()`: the inserted text, for display.
- `state(text, known=...)`: absent, present, outdated, or the user's own.
- `put(text)`: the text with the entry.
- `taken(text)`: the text without the entry; None if `put` created the file and it contains nothing else.

The methods raise Invalid, with the line, if the text is broken or has no place for the entry.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kgd.agents import jsonc, markdown, toml_table

State = Literal["absent", "present", "outdated", "own"]
NAME = "kgd"
HOOK = " prime --hook"
ALWAYS = " || true"
"""Keeps sessions working for colleagues who have the same files but not kgd."""

_SEAL = "\n<!-- written by `kgd agents install`: "


@dataclass(frozen=True, slots=True)
class JsonEntry:
    """A member `name` of the object at `path` or, without a `name`, an element of the list at `path`."""

    kind: str
    path: tuple[str, ...]
    value: dict[str, Any]
    name: str = ""
    around: tuple[tuple[str, Any], ...] = ()
    """Members at the beginning of a created file."""

    def shown(self) -> str:
        return self._file()

    def state(self, text: str, *, known: bool) -> State:
        if not text.strip():
            return "absent"
        container = jsonc.find(text, self.path)
        items = container.items if container else ()
        mine = [one for one in items if self._is_meant(one)]
        if not mine:
            return "absent"
        data, written = mine[0].value.data, text[mine[0].value.start : mine[0].end]
        if _plain(data) is None or (written != _one_line(data) and not known):
            return "own"
        return "present" if _plain(data) == _plain(self.value) else "outdated"

    def put(self, text: str | None) -> str:
        if text is None:
            return self._file()
        if not text.strip():
            return self._bare() + text
        if self.state(text, known=True) == "outdated":
            return self.put(self.taken(text))
        return jsonc.inserted(text, self.path, self._entry())

    def taken(self, text: str) -> str | None:
        data = self._data(text)
        if text == self._file(data):
            return None
        bare = self._bare(data)
        if text.startswith(bare) and not text[len(bare) :].strip():
            return text[len(bare) :]
        return jsonc.removed(text, self.path, self._is_meant)

    def _data(self, text: str) -> dict[str, Any]:
        container = jsonc.find(text, self.path)
        return next((one.value.data for one in container.items if self._is_meant(one)), {}) if container else {}

    def _is_meant(self, item: jsonc.Item) -> bool:
        return item.key == self.name if self.name else _runs_prime(item.value.data)

    def _entry(self, data: dict[str, Any] | None = None) -> str:
        value = _one_line(self.value if data is None else data)
        return f"{json.dumps(self.name)}: {value}" if self.name else value

    def _file(self, data: dict[str, Any] | None = None) -> str:
        """The content of a created file: the entry on one line, its containers on separate lines."""
        opening, closing = ("{", "}") if self.name else ("[", "]")
        begin = [f'"{key}": {json.dumps(value)},' for key, value in self.around]
        begin += [f'"{key}": {{' for key in self.path[:-1]] + [f'"{self.path[-1]}": {opening}']
        lines, depth = ["{"], 1
        for line in begin:
            lines.append("  " * depth + line)
            depth += line.endswith(("{", "["))
        lines.append("  " * depth + self._entry(data))
        for bracket in [closing, *"}" * len(self.path)]:
            depth -= 1
            lines.append("  " * depth + bracket)
        return "\n".join(lines) + "\n"

    def _bare(self, data: dict[str, Any] | None = None) -> str:
        """The content for a file that contains only whitespace: the same entry on one line, before the whitespace."""
        return " ".join(line.strip() for line in self._file(data).splitlines())


@dataclass(frozen=True, slots=True)
class TomlEntry:
    kind: str
    keys: tuple[str, str]
    values: dict[str, Any]

    def shown(self) -> str:
        return toml_table.block(self.keys, self.values, "\n")

    def state(self, text: str, *, known: bool) -> State:
        there = toml_table.found(text, self.keys)
        if there is None:
            return "absent"
        if not isinstance(there, dict) or not _plain(there):
            return "own"
        written = toml_table.block(self.keys, there, "\n").rstrip("\n")
        if written not in text.replace("\r\n", "\n"):
            return "own"
        return "present" if there == self.values else "outdated"

    def put(self, text: str | None) -> str:
        if text is None:
            return self.shown()
        if self.state(text, known=True) == "outdated":
            return self.put(self.taken(text))
        return toml_table.inserted(text, self.keys, self.values)

    def taken(self, text: str) -> str | None:
        there = toml_table.found(text, self.keys)
        if text == toml_table.block(self.keys, there, "\n"):
            return None
        return toml_table.removed(text, self.keys, there)


@dataclass(frozen=True, slots=True)
class BlockEntry:
    kind: str
    body: str

    def shown(self) -> str:
        return self.put(None)

    def state(self, text: str, *, known: bool) -> State:
        there = markdown.found(text)
        if there is None:
            return "absent"
        return "present" if there.splitlines() == self.shown().splitlines() else "outdated"

    def put(self, text: str | None) -> str:
        return markdown.inserted("", self.body).lstrip("\n") if text is None else markdown.inserted(text, self.body)

    def taken(self, text: str) -> str | None:
        there = markdown.found(text)
        return None if text == f"{there}\n" else markdown.removed(text)


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file that kgd wrote completely. Its last line is a digest of the other lines; a changed file belongs to the
    user."""

    kind: str
    content: str

    def shown(self) -> str:
        return self.put(None)

    def state(self, text: str, *, known: bool) -> State:
        text = text.replace("\r\n", "\n")
        if text == self.put(None):
            return "present"
        rest, mark, _ = text.rpartition(_SEAL)
        return "outdated" if mark and text == rest + _seal(rest) else "own"

    def put(self, text: str | None) -> str:
        return self.content + _seal(self.content)

    def taken(self, text: str) -> str | None:
        return None


Entry = JsonEntry | TomlEntry | BlockEntry | FileEntry


def server(command: str, **more: Any) -> dict[str, Any]:
    """The settings with which a host starts `kgd mcp`."""
    return {**more, "command": command, "args": ["mcp"]}


def hook(command: str, shape: str = "") -> str:
    """The command line of a start hook; `command` is quoted for a shell."""
    return f"{command}{HOOK}{f' {shape}' if shape else ''}{ALWAYS}"


def _seal(content: str) -> str:
    return f"{_SEAL}{hashlib.sha256(content.encode()).hexdigest()[:16]} -->\n"


def _one_line(value: dict[str, Any]) -> str:
    """The text of an entry. It has spaces inside the braces, which users rarely write."""
    return f"{{ {json.dumps(value, ensure_ascii=False)[1:-1]} }}"


def _plain(data: Any) -> dict[str, Any] | None:
    """An entry that only starts kgd, without the members that hosts add; None for any other entry."""
    if not isinstance(data, dict):
        return None
    if _runs_prime(data):
        return data if _is_hook(data) else None
    plain = {key: value for key, value in data.items() if (key, value) not in (("type", "stdio"), ("env", {}))}
    return plain if plain.keys() == {"command", "args"} and plain["args"] == ["mcp"] else None


def _runs_prime(data: Any) -> bool:
    return any(HOOK in command for command in _commands(data))


def _is_hook(data: Any) -> bool:
    """Whether an element of a list of hooks runs only `prime`."""
    commands = _commands(data)
    return len(commands) == 1 and commands[0].endswith(ALWAYS)


def _commands(data: Any) -> Sequence[str]:
    if not isinstance(data, dict):
        return ()
    inner = data.get("hooks")
    groups = inner if isinstance(inner, list) else [data]
    found = (one.get("command") for one in groups if isinstance(one, dict))
    return [command for command in found if isinstance(command, str)]
