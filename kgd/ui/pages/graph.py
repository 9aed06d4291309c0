"""This file is where the neighbourhood of nodes is drawn, and where a picture of it is saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from kgd.drawing.scene import MEANINGS, SHAPES, Dot, Scene, of_walk
from kgd.drawing.svg import drawn, sample
from kgd.errors import Invalid, NotFound
from kgd.ui.asked import Asked, Handled, Page, Whole
from kgd.ui.entry import Entry

COST, NODES = 1.0, 60
DEAREST = 5
"""Where the slider ends; the number beside it takes more."""
MOST_NODES = 2_000
ROWS = 100
"""Lines of the list that are shown at first."""
HITS = 8
"""Of a question: what the picture begins at."""
BUDGET = 2_000_000
DIRECTIONS = {"out": "what these lead to", "in": "what leads to these", "both": "both ways"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an address of the graph asks for."""

    starts: tuple[str, ...]
    question: str
    cost: float
    nodes: int
    direction: str
    types: tuple[str, ...]
    edges: tuple[str, ...]
    as_of: str

    @classmethod
    def read(cls, asked: Asked) -> Wanted:
        """Raises Invalid where a number is none."""
        direction = asked.query.get("direction", "both")
        if direction not in DIRECTIONS:
            raise Invalid("there is no such direction", at="direction", next=f"Known: {', '.join(DIRECTIONS)}.")
        return cls(
            tuple(dict.fromkeys(text.strip() for text in asked.many("from") if text.strip())),
            asked.query.get("q", "").strip(), _number(asked, "cost", COST), int(_number(asked, "nodes", NODES)),
            direction, tuple(filter(None, asked.many("type"))), tuple(filter(None, asked.many("edge"))),
            asked.query.get("as_of", "").strip(),
        )  # fmt: skip

    def address(self, asked: Asked, page: str = "graph") -> str:
        """Where this is looked at; what is as usual is left out."""
        return asked.to(
            page, **{"from": list(self.starts)}, q=self.question, cost=_told(self.cost, COST),
            nodes=_told(self.nodes, NODES), direction=self.direction if self.direction != "both" else "",
            type=list(self.types), edge=list(self.edges), as_of=self.as_of,
        )  # fmt: skip


def graph(asked: Asked) -> Handled:
    wanted = Wanted.read(asked)
    if not wanted.starts and not wanted.question:
        return Page("graph.html", {"wanted": wanted, "directions": DIRECTIONS, "dearest": DEAREST, "most": MOST_NODES})
    wanted = _begun(asked, wanted)
    plain = _walk(asked, replace(wanted, types=(), edges=()))
    types, edges = _kinds(plain, wanted)
    is_all = set(wanted.types) >= set(types) or not wanted.types, set(wanted.edges) >= set(edges) or not wanted.edges
    wanted = replace(wanted, types=() if is_all[0] else wanted.types, edges=() if is_all[1] else wanted.edges)
    answer = plain if all(is_all) else _walk(asked, wanted)
    scene = of_walk(answer)
    title = f"Around {', '.join(dot.name for dot in scene.dots if 'start' in dot.marks)}"[:200]
    return Page("graph.html", {
        "wanted": wanted, "directions": DIRECTIONS, "dearest": DEAREST, "most": MOST_NODES, "title": title,
        "types": types, "edges": edges, "answer": answer, "picture": _picture(asked, wanted, scene, title),
        "legend": _legend(scene), "rows": _rows(asked, wanted, scene), "file": wanted.address(asked, "graph.svg"),
        "starts": _starts(asked, wanted, scene), "cut": [_said(cut, wanted) for cut in answer["cut"]],
    })  # fmt: skip


def saved(asked: Asked) -> Handled:
    """The same picture as a file that needs nothing else."""
    wanted = _begun(asked, Wanted.read(asked))
    if not wanted.starts:
        raise NotFound("there is nothing to draw yet", at="from", next="Say where to begin.")
    scene = of_walk(_walk(asked, wanted))
    title = f"{asked.workspace}: around {', '.join(dot.name for dot in scene.dots if 'start' in dot.marks)}"[:200]
    return Whole(drawn(scene, title=title, alone=True).encode(), "image/svg+xml", "kgd-graph.svg")


def _begun(asked: Asked, wanted: Wanted) -> Wanted:
    """With the nodes that a question finds as starts."""
    if wanted.starts or not wanted.question:
        return wanted
    hits = asked.call("search", query=wanted.question, limit=HITS)["hits"]
    if not hits:
        raise NotFound(
            "nothing was found", at=wanted.question[:100], next="Ask in other words, or name a node or a path."
        )
    return replace(wanted, starts=tuple(hit["uri"] for hit in hits))


def _walk(asked: Asked, wanted: Wanted) -> Mapping[str, Any]:
    return asked.call(
        "traverse", start=list(wanted.starts), max_cost=wanted.cost, max_nodes=wanted.nodes, budget=BUDGET,
        direction=wanted.direction, types=list(wanted.types) or None, edge_types=list(wanted.edges) or None,
        as_of=wanted.as_of or None,
    )  # fmt: skip


def _kinds(answer: Mapping[str, Any], wanted: Wanted) -> tuple[list[str], list[str]]:
    """Types of nodes and of relations that there are here, and those that were asked for."""
    types = {_kind(node["uri"], node["type"]) for node in answer["nodes"]} | set(wanted.types)
    edges = {edge["type"] for edge in (*answer["edges"], *answer["broken_links"])} | set(wanted.edges)
    return sorted(types), sorted(edges)


def _kind(uri: str, type: str) -> str:
    """As `traverse` takes it: files and directories by what they are."""
    scheme = uri.partition(":")[0]
    return scheme if scheme in ("file", "dir") else type


def _picture(asked: Asked, wanted: Wanted, scene: Scene, title: str) -> Markup:
    return Markup(drawn(scene, leads=lambda dot: _leads(asked, wanted, dot), title=title))


def _leads(asked: Asked, wanted: Wanted, dot: Dot) -> str:
    """A dot is gone on from; one that was begun at is shown."""
    if dot.shape == "missing" or "start" in dot.marks:
        return asked.to("node", uri=dot.uri, as_of=wanted.as_of)
    return _from(asked, wanted, [*wanted.starts, dot.uri])


def _from(asked: Asked, wanted: Wanted, starts: Sequence[str]) -> str:
    """The address of the same picture, begun elsewhere."""
    return replace(wanted, starts=tuple(starts), question="").address(asked)


def _starts(asked: Asked, wanted: Wanted, scene: Scene) -> list[dict[str, str]]:
    """What the picture begins at, each with the address of the picture without it."""
    begun = [dot for dot in scene.dots if "start" in dot.marks]
    return [
        {
            "uri": dot.uri, "name": dot.name,
            "without": _from(asked, wanted, [one.uri for one in begun if one != dot]),
        }
        for dot in begun
    ]  # fmt: skip


def _rows(asked: Asked, wanted: Wanted, scene: Scene) -> list[dict[str, Any]]:
    return [
        {
            "dot": dot, "marks": [MEANINGS[mark] for mark in dot.marks], "alone": _from(asked, wanted, [dot.uri]),
            "node": asked.to("node", uri=dot.uri, as_of=wanted.as_of),
        }
        for dot in scene.dots
    ]  # fmt: skip


def _legend(scene: Scene) -> list[tuple[Markup, str]]:
    shapes = [(Markup(sample(shape)), SHAPES[shape]) for shape in scene.shapes if shape != "missing"]
    marks = [
        (Markup(sample("missing" if mark in ("missing", "unreachable") else "knowledge", (mark,))), MEANINGS[mark])
        for mark in scene.marks
    ]
    return shapes + marks


def _said(cut: Mapping[str, Any], wanted: Wanted) -> str:
    count, limit = cut["count"], cut["limit"]
    said = {
        "max_nodes": f"At least {count:,} more nodes come next; the picture ends at {wanted.nodes:,}.",
        "max_cost": f"{count:,} more relations lead further than cost {wanted.cost:g}.",
        "broken_links": f"{count:,} more links lead to what nobody has written.",
        "edges": f"{count:,} relations were not looked at, which are too many.",
        "passed_nodes": "Too many nodes of other types lie between; the walk ended there.",
        "elsewhere": f"{count:,} nodes of other workspaces were not gone on from.",
        "budget": f"{count:,} nodes are too much for one page.",
    }
    return said.get(limit, f"{count:,} were left out by {limit}.")


def _number(asked: Asked, name: str, usual: float) -> float:
    text = asked.query.get(name, "").strip()
    try:
        return float(text) if text else usual
    except ValueError:
        raise Invalid(f"'{text[:40]}' is no number", at=name, next="Give a number, such as 1.5.") from None


def _told(number: float, usual: float) -> str:
    return "" if number == usual else f"{number:g}"


ENTRIES = (Entry("graph", "graph", graph), Entry("graph", "graph.svg", saved))
