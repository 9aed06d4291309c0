"""The nodes that are relevant to a question: each once, with the reasons, in reading order.

A reader who stops half way should know the rules and gotchas. So areas come first, then gotchas, patterns and
decisions, then other nodes. Nodes about the subject itself come before nodes that are only near it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NotRequired

from typing_extensions import TypedDict

from kgd.freshness.freshness import Freshness
from kgd.graph.edges import Card, card_of
from kgd.index.ranking import Hit
from kgd.model.escaping import fenced_line
from kgd.model.node import cut_at_word
from kgd.model.uri import CODE_TREE, KNOWLEDGE, Uri, name_of, scheme_of
from kgd.retrieval import candidates
from kgd.retrieval.query import Question, Retrieved
from kgd.tools import visibility
from kgd.tools.nodes import overlay_of, printable
from kgd.tools.read.search import answered
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace

ANSWER, DIRECT, NEAR, FAR = range(4)
"""Distance of a node from the question: it answers the question, is about the subject, is related to the subject's
areas, or was reached from there.
"""

MEMORIES = ("gotcha", "pattern", "decision", "insight", "task")
AREAS = ("molecule", "atom")
_ORDER = {kind: number for number, kind in enumerate((*AREAS, *MEMORIES[:-1], "concept", "task", "file", "dir"))}
_ORDER["molecule"] = _ORDER["atom"]  # their ranks order atoms and molecules
_OTHERS = _ORDER["concept"]
LOOKED_THROUGH = 2_000
"""Number of hits of a tag query among which to look for readable nodes."""
REASONS = 2
"""Largest number of reasons per item."""
LONGEST_REASON = 160
CHUNK_TEXT = 400
"""Largest number of characters shown of a document's chunk in the code tree."""


class CodeAnswer(TypedDict):
    """A node of the code tree that is not stored."""

    uri: str
    name: str
    why: str
    summary: NotRequired[str]
    text: NotRequired[str]


@dataclass(slots=True)
class Found:
    """One node. `rank` orders nodes of equal kind and closeness; lower is earlier."""

    uri: Uri
    card: Card
    kind: str
    closeness: int
    rank: tuple[float, ...]
    reasons: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    """For an area: the requested paths that it owns."""

    def order(self, doubted: Collection[Uri]) -> tuple[object, ...]:
        """The sort key. Nodes in `doubted` come after the other nodes of their kind."""
        if self.closeness == ANSWER:
            return (ANSWER, 0, self.uri in doubted, 0, self.rank, self.uri)
        # Nodes related to the areas share a tier with nodes that name the files, and follow them within their kind.
        tier = FAR if self.closeness == FAR else DIRECT
        # An area that may be stale still owns its paths: it keeps its place after its molecule.
        last = self.uri in doubted and self.kind not in AREAS
        return (tier, _ORDER.get(self.kind, _OTHERS), last, self.closeness, self.rank, self.uri)

    @property
    def why(self) -> str:
        told = "; ".join(self.reasons[:REASONS])
        return told if len(told) <= LONGEST_REASON else f"{told[: LONGEST_REASON - 1]}…"


class Findings:
    """The findings of one caller in one workspace."""

    def __init__(
        self, session: Session, workspace: Workspace, since: int | None = None, until: int | None = None
    ) -> None:
        """`since` and `until` (Unix seconds, both included) restrict the nodes by date."""
        self.workspace, self.session = workspace, session
        self.since, self.until = since, until
        self.sees = visibility.sight(session, workspace.id)
        self._found: dict[Uri, Found] = {}
        self._left_out: set[Uri] = set()
        self.beyond: dict[Uri, int] = {}
        """For each node with too many relations, the number of relations that were skipped."""
        self.code: dict[Uri, CodeAnswer] = {}
        """Nodes of the code tree that are relevant, best first."""
        self.with_symbols = False
        """Whether the symbols and imports of the requested files are included."""
        self.nearest: tuple[Uri, ...] = ()
        """The nearest nodes, if nothing answers the question."""

    def add(self, uri: Uri, closeness: int, why: str, *rank: float, paths: list[str] | None = None) -> Found | None:
        """Add a node under its current URI, or add a reason if the node was found before; the closest occurrence
        determines its order.

        Returns None if the node is missing or the caller may not read it.
        """
        uri = self.workspace.graph.resolve(uri)
        if uri in self._left_out or not self.may_see(uri):
            return None
        why = fenced_line(printable(why), LONGEST_REASON)
        found = self._found.get(uri)
        if found is None:
            card = card_of(self.workspace.sources(), uri)
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

    def add_code(self, uri: Uri, why: str) -> None:
        """Add a node of the code tree that is not stored, unless it was added before."""
        if uri in self.code or uri in self._left_out or not self.may_see(uri):
            return
        card = card_of(self.workspace.sources(), uri)
        if card is None:
            return
        answer: CodeAnswer = {"uri": uri, "name": card.name or name_of(uri), "why": fenced_line(printable(why), 160)}
        if card.summary and card.summary != answer["name"]:
            answer["summary"] = card.summary
        elif scheme_of(uri) == "chunk" and (overlay := overlay_of(self.workspace)) and (node := overlay.node(uri)):
            answer["text"] = cut_at_word(" ".join(node.content.split()), CHUNK_TEXT)
        self.code[uri] = answer

    def closeness(self, uri: Uri) -> int:
        """The distance of a node from the question; beyond `FAR` if it was not found."""
        found = self._found.get(self.workspace.graph.resolve(uri))
        return found.closeness if found else FAR + 1

    def leave_out(self, uri: Uri) -> None:
        """Exclude the node that the question is about."""
        self._left_out.add(uri)

    def may_see(self, uri: Uri) -> bool:
        return self.sees is None or self.sees(uri)

    def hits(self, query: str, limit: int, types: Sequence[str] | None = None) -> list[Hit]:
        """The best full-text hits in the knowledge that the caller may see; hidden nodes do not use up the limit.

        The code is not searched, because most of its files contain the words of a path.
        """
        return self.workspace.text().search(
            query, types=types, lanes=KNOWLEDGE, limit=limit, sees=self.sees, since=self.since, until=self.until
        )

    def answers(self, question: str, limit: int) -> Retrieved:
        """The hits of `search`: by words, by meaning, and by relations."""
        asked = Question(question, limit=limit, since=self.since, until=self.until)
        return answered(self.session, self.workspace, asked)

    def tagged(self, tags: Sequence[str], limit: int, types: Sequence[str]) -> list[Hit]:
        """The nodes with any of these tags, best first."""
        found = self.workspace.text().by_tags(
            tags, types=types, since=self.since, until=self.until, limit=limit if self.sees is None else LOOKED_THROUGH
        )
        return [hit for hit in found if self.may_see(hit.uri)][:limit]

    def title(self, uri: Uri) -> str:
        card = self.workspace.graph.card(uri)
        return (card.name if card is not None else "") or name_of(uri)

    def of_kind(self, *kinds: str) -> list[Found]:
        return [one for one in self.ordered() if one.kind in kinds]

    def ordered(self) -> list[Found]:
        """All nodes in reading order."""
        # The rank of a doubted node would reveal to its author whether a guess about a hidden file that it cites is
        # right.
        doubted = Freshness.of(self.workspace).doubted if self.sees is None else frozenset()
        return sorted(self._found.values(), key=lambda one: one.order(doubted))

    def dated(self) -> list[Found]:
        """The nodes of the period in reading order; nodes that are no longer valid come last, with the reason."""
        index, found = self.workspace.text(), self.ordered()
        if self.since is not None or self.until is not None:
            passing = index.passing([one.uri for one in found], since=self.since, until=self.until)
            known = {one.uri for one in passing}
            found = [one for one in found if one.uri in known]
        lapses = candidates.lapses([one.uri for one in found], index, time.time())
        for one in found:
            if one.uri in lapses and lapses[one.uri] not in one.reasons:
                one.reasons.insert(0, lapses[one.uri])
        return sorted(found, key=lambda one: one.uri in lapses)

    def __contains__(self, uri: object) -> bool:
        return uri in self._found


def kind_of(card: Card) -> str:
    """The layer of an area, `file` or `dir` for the code tree, otherwise the node's type."""
    scheme = scheme_of(card.uri)
    return scheme if scheme in (*AREAS, *CODE_TREE) else card.type


def in_words(type: str) -> str:
    """A type of relation within a sentence: ``depends on``."""
    return type.replace("_", " ")
