"""The page *Graph*, without a browser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kgd.tools import call
from kgd.tools.read import graph_view, grouping, traverse
from kgd.tools.session import Session
from kgd.ui.pages import graph, graph_walk
from kgd.ui.visit import Page, Visit
from tests.surfaces.conftest import upsert

NODES = 30


@pytest.fixture
def known(session: Session) -> Session:
    """A node with relations to `NODES` other nodes, one of which is expired."""
    names = [f"part/n{n}" for n in range(NODES)]
    changes = [upsert(name, summary="A part of the whole. " * 4) for name in names]
    changes[0]["data"] = {"valid": {"until": "2020-01-31"}}
    relations = [{"type": "uses", "target": name, "weight": 0.5} for name in names]
    call(session, "put", {"changes": [*changes, upsert("whole", relations=relations)]})
    return session


def opened(session: Session, **query: str) -> dict[str, Any]:
    """The variables of the page."""
    asked = {"from": "concept://shop/whole", "cost": "1"} | query
    visitor: Any = None
    visit = Visit(
        session.daemon, visitor, "shop", asked, {}, lambda name: [asked[name]] if name in asked else [], {}, "/ui/"
    )
    page = graph.graph(visit)
    assert isinstance(page, Page)
    return dict(page.told)


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The number of walks, pictures and look-ups of classes."""
    counts = Counter[str]()

    def counted(module: Any, name: str) -> None:
        original: Callable[..., Any] = getattr(module, name)

        def count(*given: Any, **named: Any) -> Any:
            counts[name] += 1
            return original(*given, **named)

        monkeypatch.setattr(module, name, count)

    for module, name in ((traverse, "walk_across"), (graph_view, "draw"), (graph, "draw"), (grouping, "tones_of")):
        counted(module, name)
    return counts


@pytest.mark.parametrize("query", [{}, {"hide": "file"}, {"to": "concept://shop/part/n0"}])
def test_colours_cost_one_look_up_and_no_other_walk_or_picture(
    known: Session, done: Counter[str], monkeypatch: pytest.MonkeyPatch, query: dict[str, str]
) -> None:
    monkeypatch.setattr(graph_walk, "BUDGET", 1_000)  # several pages
    opened(known, **query)
    by_type = Counter(done)
    assert by_type["walk_across"] > (1 if "to" not in query else 0)
    done.clear()
    shown = opened(known, colour="trouble", **query)
    assert done == by_type | Counter({"tones_of": 1})
    assert "expired 1" in {one["words"] for one in shown["legend"]}


def test_all_pages_of_a_walk_have_their_classes(known: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_walk, "BUDGET", 1_000)
    texts = [one["words"] for one in opened(known, colour="trouble")["legend"]]
    assert {"expired 1", f"no problem {NODES}"} <= set(texts)
