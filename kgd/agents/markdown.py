"""Insertion of a marked block at the end of a user's Markdown file, and its removal, byte for byte."""

from __future__ import annotations

from kgd.errors import Invalid

BEGIN = "<!-- kgd: written by `kgd agents install`, taken out by `kgd agents uninstall` -->"
END = "<!-- kgd: end -->"


def found(text: str) -> str | None:
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


def inserted(text: str, body: str) -> str:
    """The text with the block at its end, after an empty line; an existing block is replaced."""
    there = found(text)
    newline = _newline(text if there is None else there)
    block = newline.join([BEGIN, *body.strip().splitlines(), END])
    if there is not None:
        return text.replace(there, block)
    return f"{text}{newline}{block}{newline}" if not text or text.endswith("\n") else text + 2 * newline + block


def removed(text: str) -> str:
    """The text without the block and the empty line before it.

    Raises:
        Invalid: There is no block.
    """
    block = found(text)
    if block is None:
        raise Invalid("there is no kgd block here")
    newline = _newline(block)
    before, after = text.split(block)
    if not after and before.endswith(2 * newline):  # the last line had no newline
        return before[: -2 * len(newline)]
    if before.endswith(newline):
        before = before[: -len(newline)]
    return before + after.removeprefix(newline)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
