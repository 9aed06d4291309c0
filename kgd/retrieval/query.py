"""Queries to the graph, and their answers."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kgd.model.uri import LANES, Lane, Uri


@dataclass(frozen=True, slots=True)
class Question:
    """A query and its filters.

    `namespace`, `types`, `tags` (any of them), `since` and `until` (Unix seconds, both inclusive) restrict the hits.
    `edge_types` restricts the relations to follow; empty means all. `lanes` are the kinds of text to search. With a
    `max_depth` of 0 only a hit's own text is scored; 1 adds its surroundings; more also adds nodes further away.
    `min_similarity` applies to vectors, `min_score` to the final score. `now` (Unix seconds) is the current time for
    dates.
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
    lanes: tuple[Lane, ...] = LANES
    edges: bool = False
    """Whether the relations of the hits are requested."""
    since: int | None = None
    until: int | None = None
    now: float = field(default_factory=time.time)

    @property
    def is_of_a_period(self) -> bool:
        """Whether only nodes with a date can be hits; files of the code tree have no date."""
        return self.since is not None or self.until is not None

    def covers(self, uri: Uri) -> bool:
        """Whether a node of the code tree is in the namespace."""
        return not self.namespace or uri.split("/", 3)[3].startswith(f"{self.namespace}/")

    def follows(self, type: str) -> bool:
        """Whether relations of this type are followed."""
        return not self.edge_types or type in self.edge_types


class Step(NamedTuple):
    """A relation that was followed, from `source` to `target` or, if `backwards`, against its direction."""

    source: Uri
    type: str
    target: Uri
    backwards: bool = False


class Answered(NamedTuple):
    """One hit. `path` leads to it from the node that matched the query; if the hit matched directly, `path` has only
    the hit.

    `lex` and `vec` are 0..1 within this answer; `similarity` is the cosine, None without vectors. `line` is the line of
    the code that quotes the query, otherwise 0; `snippet` is then its text.
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
    line: int = 0


class Link(NamedTuple):
    """A relation of a hit, perhaps to another hit; `derived` relations are not stored."""

    source: Uri
    target: Uri
    type: str
    weight: float
    derived: bool = False


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The hits in knowledge and in code, each best first, and their relations. If no knowledge answers the query,
    `nearest` has the nearest texts."""

    hits: tuple[Answered, ...]
    edges: tuple[Link, ...]
    more: bool = False
    code: tuple[Answered, ...] = ()
    more_code: bool = False
    nearest: tuple[Uri, ...] = ()

    @property
    def paths(self) -> tuple[tuple[Uri, ...], ...]:
        return tuple(hit.path for hit in self.hits)


class Mentions(Protocol):
    """Names of nodes in texts (see `kgd.mentions`), strongest mention first, ties by URI."""

    def look_up(self, out: Collection[Uri], into: Collection[Uri]) -> None:
        """Announce the next calls of `mentioned` and `mentioning`, so that they need few statements."""

    def mentioned(self, uri: Uri) -> Mapping[Uri, float]:
        """The nodes that this node's texts mention, with the strength of each mention, 0..1."""

    def mentioning(self, uri: Uri) -> Mapping[Uri, float]:
        """The nodes whose texts mention this node, with the strength of each mention."""
