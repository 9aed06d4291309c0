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
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kgd.agents import jsonc
from kgd.errors import Invalid, KgdError

State = Literal["absent", "present", "outdated", "own"]
NAME = "kgd"
HOOK = " prime --hook"
ALWAYS = " || true"
"""Keeps sessions working for colleagues who have the same files but not kgd."""

MARK = "# by `kgd agents install`"
"""Distinguishes kgd's table in a TOML file from a user's."""
BEGIN = "<!-- kgd: written by `kgd agents install`, taken out by `kgd agents uninstall` -->"
END = "<!-- kgd: end -->"
"""Mark kgd's block in a Markdown file."""

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
    """The table ``[first.second]`` at the end of a file.

    TOML allows a new table at the end of a file, so no positions are needed: the parsed content is compared before and
    after, and the edit is refused if anything else differs.
    """

    kind: str
    keys: tuple[str, str]
    values: dict[str, Any]

    def shown(self) -> str:
        return self._block(self.values)

    def state(self, text: str, *, known: bool) -> State:
        there = self._found(text)
        if there is None:
            return "absent"
        if not isinstance(there, dict) or not _plain(there):
            return "own"
        written = self._block(there).rstrip("\n")
        if written not in text.replace("\r\n", "\n"):
            return "own"
        return "present" if there == self.values else "outdated"

    def put(self, text: str | None) -> str:
        if text is None:
            return self.shown()
        if self.state(text, known=True) == "outdated":
            return self.put(self.taken(text))
        before, added = _parsed(text), self._block(self.values, _newline(text))
        outer = before.get(self.keys[0], {})
        expected = {**before, self.keys[0]: {**outer, self.keys[1]: self.values}} if isinstance(outer, dict) else None
        return self._checked(_appended(text, added), expected)

    def taken(self, text: str) -> str | None:
        there = self._found(text)
        if text == self._block(there):
            return None
        before, newline = _parsed(text), _newline(text)
        written = self._block(there, newline)
        at = text.rfind(newline + written)
        if at >= 0:
            new = text[:at] + text[at + len(newline + written) :]
        elif text.endswith(last := 2 * newline + written[: -len(newline)]):
            new = text[: -len(last)]
        else:
            raise Invalid("this entry has been changed since kgd wrote it", next="Remove it by hand.")
        rest = {key: value for key, value in before[self.keys[0]].items() if key != self.keys[1]}
        expected = {**before, self.keys[0]: rest}
        if not rest and self.keys[0] not in _parsed(new):
            del expected[self.keys[0]]
        return self._checked(new, expected)

    def _found(self, text: str) -> Any:
        """The value under the keys, or None."""
        table = _parsed(text).get(self.keys[0])
        return table.get(self.keys[1]) if isinstance(table, dict) else None

    def _block(self, values: dict[str, Any], newline: str = "\n") -> str:
        """The text of the table. JSON strings and lists of strings are valid TOML."""
        lines = [f"[{'.'.join(self.keys)}]  {MARK}", *(f"{key} = {json.dumps(one)}" for key, one in values.items())]
        return "".join(line + newline for line in lines)

    def _checked(self, text: str, expected: dict[str, Any] | None) -> str:
        try:
            same = _parsed(text) == expected
        except KgdError:
            same = False
        if not same:
            raise Invalid(f"the table {'.'.join(self.keys)} cannot be added to this file", next="Add it by hand.")
        return text


def _parsed(text: str) -> dict[str, Any]:
    """The values of a TOML file; the place of an error is its line."""
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        what, _, place = str(error).partition(" (at ")
        line = place.removesuffix(")").partition(",")[0] or "the end"
        raise Invalid(f"this is not TOML: {what}", at=line) from None
    except RecursionError:
        raise Invalid("this TOML is nested too deeply") from None


@dataclass(frozen=True, slots=True)
class BlockEntry:
    """A marked block at the end of a Markdown file."""

    kind: str
    body: str

    def shown(self) -> str:
        return self.put(None)

    def state(self, text: str, *, known: bool) -> State:
        there = _marked(text)
        if there is None:
            return "absent"
        return "present" if there.splitlines() == self.shown().splitlines() else "outdated"

    def put(self, text: str | None) -> str:
        there = _marked(text or "")
        newline = _newline((text or "") if there is None else there)
        block = newline.join([BEGIN, *self.body.strip().splitlines(), END])
        if text is None:
            return block + newline
        return text.replace(there, block) if there is not None else _appended(text, block + newline)

    def taken(self, text: str) -> str | None:
        block = _marked(text)
        if text == f"{block}\n":
            return None
        if block is None:
            raise Invalid("there is no kgd block here")
        newline = _newline(block)
        before, after = text.split(block)
        if not after and before.endswith(2 * newline):  # the last line had no newline
            return before[: -2 * len(newline)]
        if before.endswith(newline):
            before = before[: -len(newline)]
        return before + after.removeprefix(newline)


def _marked(text: str) -> str | None:
    """The block with its marks, or None.

    Raises:
        Invalid: One of its marks is missing or duplicated.
    """
    if BEGIN not in text and END not in text:
        return None
    start, end = text.find(BEGIN), text.rfind(END)
    if text.count(BEGIN) != 1 or text.count(END) != 1 or end < start:
        line = text.count("\n", 0, max(start, 0)) + 1
        raise Invalid("the marks of kgd's block do not match", at=f"line {line}", next="Remove the block by hand.")
    return text[start : end + len(END)]


def _appended(text: str, block: str) -> str:
    """The text with the block at its end, after an empty line. The block ends without a newline if the text did."""
    newline = _newline(text)
    if not text or text.endswith("\n"):
        return text + newline + block
    return text + 2 * newline + block[: -len(newline)]


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


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
