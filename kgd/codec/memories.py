"""This file is where the file of a memory is read and written: front matter that mirrors its node, and prose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgd.codec import canonical
from kgd.codec.canonical import NotCanonical
from kgd.errors import Invalid
from kgd.model.node import Json

MIRRORED = ("id", "type", "date", "tags")
"""What of the node the front matter repeats, in this order; other keys follow, sorted."""
FENCE = "---\n"


@dataclass(frozen=True, slots=True)
class Memory:
    """`head` is the front matter as it is written, comments included, without its fences."""

    front: Mapping[str, Json]
    prose: str
    head: str


def decode(data: bytes, *, at: str = "") -> Memory:
    """The memory in a file that anybody may have written.

    Raises:
        Invalid: Not UTF-8, or it does not begin with front matter.
        Refused, Limit: As for nodes.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Invalid("this is no UTF-8 text", at=f"{at}:1") from None
    head, fence, prose = text[len(FENCE) :].partition("\n" + FENCE)
    if not text.startswith(FENCE) or not fence:
        raise Invalid("a memory begins with front matter between two lines of '---'", at=f"{at}:1")
    head += "\n"
    return Memory(_read(head, at), prose, head)


def encode(front: Mapping[str, Json], prose: str) -> bytes:
    """The canonical bytes.

    Raises:
        Invalid, Limit: The front matter holds what YAML cannot.
    """
    known = [key for key in MIRRORED if front.get(key) is not None]
    ordered = {key: front[key] for key in (*known, *sorted(front.keys() - set(MIRRORED)))}
    return with_head(canonical.dump(ordered), prose)


def with_head(head: str, prose: str) -> bytes:
    return f"{FENCE}{head}{FENCE}{prose}".encode()


def _read(head: str, at: str) -> Mapping[str, Json]:
    try:
        return canonical.load(head)
    except NotCanonical:
        from kgd.codec import reading  # ruamel costs 60 ms to import; canonical files never need it

        return reading.read(head.encode(), at)
