"""Text edits of one entry in ``workspaces.yaml``, which keep the user's comments and order.

Only the block style of ``workspaces.example.yaml`` is supported; other styles are refused. The caller parses the result
before it is saved.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from kgd.errors import Invalid

_HEAD = re.compile(r"workspaces:[ ]*(#.*)?$").match
_PLAIN = re.compile(r"/[A-Za-z0-9/._-]*\Z").match


def with_entry(text: str, id: str, fields: Mapping[str, str | bool | float]) -> str:
    """`text` with this entry added at the end, or with its fields replaced.

    Raises:
        Invalid: ``workspaces`` is not written as a block.
    """
    lines = text.splitlines()
    start, end, indent = _block(lines)
    if start < 0:
        lines += ["workspaces:"]
        start, end, indent = len(lines) - 1, len(lines), "  "
    first, last = _entry(lines, start, end, indent, id)
    if first < 0:
        made = [f"{indent}{id}:", *(f"{indent}  {name}: {_scalar(value)}" for name, value in fields.items())]
        lines[end:end] = made
        return "\n".join(lines) + "\n"
    kept = [line for line in lines[first + 1 : last] if not _is_field(line, ("path", "code", "standalone", *fields))]
    inner = next((_indent(line) for line in lines[first + 1 : last] if _is_content(line)), f"{indent}  ")
    comments = {name: _comment(line) for line in lines[first + 1 : last] for name in fields if _names(line, name)}
    made = [f"{inner}{name}: {_scalar(value)}{comments.get(name, '')}" for name, value in fields.items()]
    lines[first + 1 : last] = made + kept
    return "\n".join(lines) + "\n"


def without_entry(text: str, id: str) -> str:
    """`text` without this entry and the comments inside it."""
    lines = text.splitlines()
    start, end, indent = _block(lines)
    first, last = _entry(lines, start, end, indent, id)
    if first >= 0:
        del lines[first:last]
        if not any(_is_content(line) for line in lines[start + 1 : end - (last - first)]):
            lines[start] = "workspaces: {}"
    return "\n".join(lines) + "\n"


def _block(lines: list[str]) -> tuple[int, int, str]:
    """(line of ``workspaces:``, line after its last entry, indent of its entries); -1 if missing."""
    for number, line in enumerate(lines):
        if line.strip() in ("workspaces: {}", "workspaces: null", "workspaces: ~"):
            lines[number] = "workspaces:"
            return number, number + 1, "  "
        if not line.startswith("workspaces"):
            continue
        if not _HEAD(line):
            raise Invalid("'workspaces' is not written as a block, so kgd does not edit it", at=f"line {number + 1}",
                          next="Write one workspace per block, as workspaces.example.yaml does.")  # fmt: skip
        end, indent = number + 1, ""
        for below in range(number + 1, len(lines)):
            if not _is_content(lines[below]):
                continue
            if not lines[below].startswith(" "):
                break
            indent, end = indent or _indent(lines[below]), below + 1
        return number, end, indent or "  "
    return -1, -1, "  "


def _entry(lines: list[str], start: int, end: int, indent: str, id: str) -> tuple[int, int]:
    """(line of the entry's key, line after its last field); -1 if missing."""
    is_key = re.compile(rf"{indent}(['\"]?){re.escape(id)}\1:[ ]*(#.*)?$").match
    for first in range(start + 1, end):
        if not is_key(lines[first]):
            continue
        last = first + 1
        for below in range(first + 1, end):
            if _is_content(lines[below]):
                if len(_indent(lines[below])) <= len(indent):
                    break
                last = below + 1
        return first, last
    return -1, -1


def _is_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" "))]


def _names(line: str, name: str) -> bool:
    return line.lstrip().startswith(f"{name}:")


def _is_field(line: str, names: tuple[str, ...]) -> bool:
    return any(_names(line, name) for name in names)


def _comment(line: str) -> str:
    """The comment after a value, with its leading blank."""
    found = re.search(r"""(?:"[^"]*"|'[^']*'|[^"'#\s][^#]*?)(\s+#.*)$""", line.partition(":")[2].lstrip())
    return found.group(1) if found else ""


def _scalar(value: str | bool | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value:g}"
    return value if _PLAIN(value) else json.dumps(value, ensure_ascii=False)
