"""Insertion of one table at the end of a user's TOML file, and its removal, byte for byte.

TOML allows a new table at the end of a file, so no positions are needed: the parsed content is compared before and
after, and the edit is refused if anything else differs.
"""

from __future__ import annotations

import json
import tomllib
from typing import Any

from kgd.errors import Invalid, KgdError

MARK = "# by `kgd agents install`"
"""Distinguishes kgd's table from a user's."""

Keys = tuple[str, str]
"""The table ``[first.second]``."""


def parse(text: str) -> dict[str, Any]:
    """The parsed text.

    Raises:
        Invalid: The text is not TOML; `at` has the line.
    """
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        what, _, place = str(error).partition(" (at ")
        line = place.removesuffix(")").partition(",")[0] or "the end"
        raise Invalid(f"this is not TOML: {what}", at=line) from None
    except RecursionError:
        raise Invalid("this TOML is nested too deeply") from None


def found(text: str, keys: Keys) -> Any:
    """The value under the keys, or None."""
    table = parse(text).get(keys[0])
    return table.get(keys[1]) if isinstance(table, dict) else None


def block(keys: Keys, values: dict[str, Any], newline: str) -> str:
    """The text of the table. JSON strings and lists of strings are valid TOML."""
    lines = [f"[{'.'.join(keys)}]  {MARK}", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    return "".join(line + newline for line in lines)


def inserted(text: str, keys: Keys, values: dict[str, Any]) -> str:
    """The text with the table at its end, after an empty line.

    Raises:
        Invalid: The text is broken, or the table cannot be appended.
    """
    before = parse(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    added = block(keys, values, newline)
    new = text + newline + added if not text or text.endswith("\n") else text + 2 * newline + added[: -len(newline)]
    outer = before.get(keys[0], {})
    _compare(new, {**before, keys[0]: {**outer, keys[1]: values}} if isinstance(outer, dict) else None, keys)
    return new


def removed(text: str, keys: Keys, values: dict[str, Any]) -> str:
    """The text without the table.

    Raises:
        Invalid: The text is broken, or the table has changed since `inserted` wrote it.
    """
    before = parse(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    written = block(keys, values, newline)
    at = text.rfind(newline + written)
    if at >= 0:
        new = text[:at] + text[at + len(newline + written) :]
    elif text.endswith(last := 2 * newline + written[: -len(newline)]):
        new = text[: -len(last)]
    else:
        raise Invalid("this entry has been changed since kgd wrote it", next="Remove it by hand.")
    rest = {key: value for key, value in before[keys[0]].items() if key != keys[1]}
    expected = {**before, keys[0]: rest}
    if not rest and keys[0] not in parse(new):
        del expected[keys[0]]
    _compare(new, expected, keys)
    return new


def _compare(text: str, expected: dict[str, Any] | None, keys: Keys) -> None:
    try:
        same = parse(text) == expected
    except KgdError:
        same = False
    if not same:
        raise Invalid(f"the table {'.'.join(keys)} cannot be added to this file", next="Add it by hand.")
