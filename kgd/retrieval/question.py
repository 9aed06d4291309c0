"""This file is where a question to the graph is defined, and what it is answered with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kgd.model.uri import Uri


@dataclass(frozen=True, slots=True)
class Question:
    """What to look for and where.

    `namespace`, `types` and `tags` (any of them) narrow what may be a hit. `edge_types` (none: all) are the relations
    by which something may be reached; `stored` leaves out what is only served of the code tree, `stored_first` puts it
    behind. With `max_depth` 0 a hit is there for its own text alone; 1 lets what surrounds
    it count; more also bring what lies further away. `min_similarity` is about vectors alone, `min_score` about the
    score of the answer.
    """

    query: str
    namespace: str = ""
    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    edge_types: tuple[str, ...] = ()
    max_depth: int = 1
    limit: int = 10
    min_score: float = 0.0
    min_similarity: float = 0.0
    stored: bool = False
    stored_first: bool = False

    def follows(self, type: str) -> bool:
        """Whether a relation of this type may be gone along."""
        return not self.edge_types or type in self.edge_types


class Step(NamedTuple):
    """One relation that was gone along, from `source` to `target` or, if `backwards`, against its direction."""

    source: Uri
    type: str
    target: Uri
    backwards: bool = False


class Answered(NamedTuple):
    """One hit. `path` leads from the node that the words or the meaning found to this one; of itself alone for those.

    `lex` and `vec` are 0..1 within this answer; `similarity` is the cosine, None without vectors.
    """

    uri: Uri
    score: float
    snippet: str
    why: tuple[str, ...]
    path: tuple[Uri, ...]
    lex: float = 0.0
    vec: float = 0.0
    similarity: float | None = None
    steps: tuple[Step, ...] = ()


class Link(NamedTuple):
    """A relation between two nodes of an answer, or from one of them; `derived` is stored nowhere."""

    source: Uri
    target: Uri
    type: str
    weight: float
    derived: bool = False


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The hits, best first; relations that they have; and the path to each, in the order of the hits."""

    hits: tuple[Answered, ...]
    edges: tuple[Link, ...]
    more: bool = False

    @property
    def paths(self) -> tuple[tuple[Uri, ...], ...]:
        return tuple(hit.path for hit in self.hits)


class Mentions(Protocol):
    """Which texts name which nodes; see `kgd.mentions`. The strongest mention first, equals by URI."""

    def look_up(self, out: Collection[Uri], into: Collection[Uri]) -> None:
        """Say what is asked for next, so that it costs a few statements in all: `mentioned`, then `mentioning`."""

    def mentioned(self, uri: Uri) -> Mapping[Uri, float]:
        """What the texts of this node name, with the strength of each mention, 0..1."""

    def mentioning(self, uri: Uri) -> Mapping[Uri, float]:
        """Whose texts name this node."""


NAMELESS = ("chunk://", "message://")


class Once:
    """The mentions that one question asks for, each looked up once."""

    def __init__(self, mentions: Mentions) -> None:
        self._mentions = mentions
        self._mentioned: dict[Uri, Mapping[Uri, float]] = {}
        self._mentioning: dict[Uri, Mapping[Uri, float]] = {}

    def look_up(self, uris: Collection[Uri]) -> None:
        """Say which nodes are asked for next."""
        out = [uri for uri in uris if uri not in self._mentioned]
        into = [uri for uri in uris if uri not in self._mentioning and not uri.startswith(NAMELESS)]
        self._mentions.look_up(out, into)

    def mentioned(self, uri: Uri) -> Mapping[Uri, float]:
        if uri not in self._mentioned:
            self._mentioned[uri] = self._mentions.mentioned(uri)
        return self._mentioned[uri]

    def mentioning(self, uri: Uri) -> Mapping[Uri, float]:
        """Nobody names a chunk or a message."""
        if uri not in self._mentioning:
            self._mentioning[uri] = {} if uri.startswith(NAMELESS) else self._mentions.mentioning(uri)
        return self._mentioning[uri]
