"""This file is where what bears on a question is collected: each node once, with why it is there, in reading order.

Who stops half way should have read the rules and the traps: areas come first, then gotchas, patterns and decisions,
then the rest; and before any of those that are only near, those that are about the thing itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kgd.freshness.freshness import Freshness
from kgd.graph.edges import Card
from kgd.model.fence import fenced_line
from kgd.model.uri import CODE_TREE, Uri, name_of, scheme_of
from kgd.retrieval.question import Question
from kgd.tools import sight
from kgd.tools.nodes import printable
from kgd.tools.searching import answered

if TYPE_CHECKING:
    from kgd.index.ranking import Hit
    from kgd.retrieval.question import Answered
    from kgd.tools.session import Session
    from kgd.workspace.workspace import Workspace

ANSWER, DIRECT, NEAR, FAR = range(4)
"""How close a node is: what answers the question itself, what is about the thing asked for, what hangs on its areas,
what was come to from there."""

MEMORIES = ("gotcha", "pattern", "decision", "insight", "task")
AREAS = ("molecule", "atom")
_ORDER = {kind: number for number, kind in enumerate((*AREAS, *MEMORIES[:-1], "concept", "task", "file", "dir"))}
_ORDER["molecule"] = _ORDER["atom"]  # their ranks say which atoms follow which molecule
_OTHERS = _ORDER["concept"]
LOOKED_THROUGH = 2_000
"""Hits among which those are found that the caller may see."""
REASONS = 2
"""Reasons that an item names."""
LONGEST_REASON = 160


@dataclass(slots=True)
class Found:
    """One node. `rank` orders those of one kind that are equally close; lower is earlier."""

    uri: Uri
    card: Card
    kind: str
    closeness: int
    rank: tuple[float, ...]
    reasons: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    """For an area: which of the asked paths are its own."""

    def order(self, doubted: Collection[Uri]) -> tuple[object, ...]:
        """By which it is sorted: what is doubted comes behind the others of its kind."""
        if self.closeness == ANSWER:
            return (ANSWER, 0, self.uri in doubted, 0, self.rank, self.uri)
        # What hangs on the areas is read beside what names the very files, behind it in its kind.
        tier = FAR if self.closeness == FAR else DIRECT
        # An area that is behind its code still is the area: it keeps its place, below its molecule.
        last = self.uri in doubted and self.kind not in AREAS
        return (tier, _ORDER.get(self.kind, _OTHERS), last, self.closeness, self.rank, self.uri)

    @property
    def why(self) -> str:
        told = "; ".join(self.reasons[:REASONS])
        return told if len(told) <= LONGEST_REASON else f"{told[: LONGEST_REASON - 1]}…"


class Findings:
    """What one caller may know of one workspace, as far as it was come across."""

    def __init__(self, session: Session, workspace: Workspace) -> None:
        self.workspace, self.session = workspace, session
        self.sees = sight.sight(session, workspace.id)
        self._found: dict[Uri, Found] = {}
        self._left_out: set[Uri] = set()
        self.beyond: dict[Uri, int] = {}
        """Relations of a node that were not looked at, because it has so many."""

    def add(self, uri: Uri, closeness: int, why: str, *rank: float, paths: list[str] | None = None) -> Found | None:
        """The node under its present URI, with one more reason; a closer one than before takes its place in the order.

        None for what is not there, and for what the caller may not read.
        """
        uri = self.workspace.graph.resolve(uri)
        if uri in self._left_out or not self.may_see(uri):
            return None
        why = fenced_line(printable(why), LONGEST_REASON)
        found = self._found.get(uri)
        if found is None:
            card = next((c for source in self.workspace.sources() if (c := source.card(uri)) is not None), None)
            if card is None:
                return None
            found = self._found[uri] = Found(uri, card, kind_of(card), closeness, rank)
        if closeness < found.closeness:
            found.closeness, found.rank = closeness, rank
            found.reasons.insert(0, why)
        elif why not in found.reasons:
            found.reasons.append(why)
        if paths:
            found.paths += [path for path in map(printable, paths) if path not in found.paths]
        return found

    def leave_out(self, uri: Uri) -> None:
        """The node that was asked about is no news."""
        self._left_out.add(uri)

    def may_see(self, uri: Uri) -> bool:
        return self.sees is None or self.sees(uri)

    def hits(self, query: str, limit: int, types: Sequence[str] | None = None) -> list[Hit]:
        """The best hits in full text among what the caller may see: what they may not takes no place from it."""
        return self.workspace.text().search(query, types=types, limit=limit, sees=self.sees)

    def answers(self, question: str, limit: int) -> Sequence[Answered]:
        """What `search` answers: by words, by meaning, and by what leads there."""
        return answered(self.session, self.workspace, Question(question, limit=limit)).hits

    def tagged(self, tags: Sequence[str], limit: int, types: Sequence[str]) -> list[Hit]:
        """The same by tags."""
        found = self.workspace.text().by_tags(tags, types=types, limit=limit if self.sees is None else LOOKED_THROUGH)
        return [hit for hit in found if self.may_see(hit.uri)][:limit]

    def title(self, uri: Uri) -> str:
        card = self.workspace.graph.card(uri)
        return (card.name if card is not None else "") or name_of(uri)

    def of_kind(self, *kinds: str) -> list[Found]:
        return [one for one in self.ordered() if one.kind in kinds]

    def ordered(self) -> list[Found]:
        """All of it, in reading order."""
        # Where a node stands would tell whoever wrote it whether a file that it cites is as they guess it.
        doubted = Freshness.of(self.workspace).doubted if self.sees is None else frozenset()
        return sorted(self._found.values(), key=lambda one: one.order(doubted))

    def __contains__(self, uri: object) -> bool:
        return uri in self._found


def kind_of(card: Card) -> str:
    """The area's layer, `file` or `dir` for the code tree, else the node's type."""
    scheme = scheme_of(card.uri)
    return scheme if scheme in (*AREAS, *CODE_TREE) else card.type
