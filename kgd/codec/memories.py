"""Memory files: front matter that mirrors the node, and prose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgd.codec import canonical, documents
from kgd.errors import Invalid, KgdError
from kgd.model.node import Json

MIRRORED = ("id", "type", "date", "tags")
"""Node fields that the front matter repeats, in this order; other keys follow, sorted."""
FENCE = "---\n"


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory's front matter and prose. `head` is the front matter as written, with its comments but without its
    fences."""

    front: Mapping[str, Json]
    prose: str
    head: str

    @property
    def text(self) -> str:
        """The prose without surrounding blank lines: the detail given to `put`."""
        return self.prose.strip("\n")

    @property
    def tags(self) -> tuple[str, ...]:
        found = self.front.get("tags")
        return tuple(str(tag) for tag in found) if isinstance(found, list) else ()


def decode(data: bytes, *, at: str = "") -> Memory:
    """The memory in a file from any author.

    Raises:
        Invalid: The file is not UTF-8, or does not begin with front matter.
        Refused, Limit: As for nodes.
    """
    try:
        text = data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise Invalid("the file is not UTF-8", at=f"{at}:1") from None
    if text.startswith("---\r\n"):
        text = text.replace("\r\n", "\n")
    head, fence, prose = text[len(FENCE) :].partition("\n" + FENCE)
    if not fence and head.endswith("\n---"):
        head, fence = head.removesuffix("\n---"), FENCE
    if not text.startswith(FENCE) or not fence:
        raise Invalid(
            "a memory must begin with front matter between two lines of '---'",
            at=f"{at}:1",
            next="Restore its first lines: id, type, date and tags.",
        )
    head += "\n"
    return Memory(documents.read_mapping(head.encode(), at), prose, head)


def read(data: bytes | None, at: str = "") -> Memory | None:
    """As `decode`; None if the file is absent or not a memory."""
    try:
        return decode(data, at=at) if data is not None else None
    except KgdError:
        return None


def encode(front: Mapping[str, Json], prose: str) -> bytes:
    """The canonical bytes.

    Raises:
        Invalid, Limit: YAML cannot represent the front matter.
    """
    return with_head(canonical.dump(_ordered(front)), prose)


def rewrite(memory: Memory, front: Mapping[str, Json]) -> bytes:
    """The file with new front matter, in the form of the old front matter and with its comments, and with unchanged
    prose.

    Raises:
        Invalid, Limit: As `encode`.
    """
    from kgd.codec import guard  # ruamel costs 60 ms to import; canonical front matter never needs it

    ordered = _ordered(front)
    plain = canonical.dump(ordered).encode()
    head = guard.rewrite(
        memory.head.encode(),
        ordered,
        plain,
        lambda data: dict(documents.read_mapping(data, "")) == ordered,
        in_any_form=True,
    )
    return with_head(head.decode(), memory.prose)


def with_head(head: str, prose: str) -> bytes:
    return f"{FENCE}{head}{FENCE}{prose}".encode()


def _ordered(front: Mapping[str, Json]) -> dict[str, Json]:
    known = [key for key in MIRRORED if front.get(key) is not None]
    return {key: front[key] for key in (*known, *sorted(front.keys() - set(MIRRORED)))}
