"""This file is where the address of a picture of the graph is read and written: a view can be sent to somebody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite

from kgd.errors import Invalid
from kgd.ui.asked import Asked

COST, NODES = 1.0, 60
DEAREST = 5
"""Where the slider ends; the number beside it takes more."""
DIRECTIONS = {"both": "both ways", "out": "what these lead to", "in": "what leads to these"}
MOST_STARTS = 100
MOST_OFF = 60
"""Types of nodes, and of relations, that can be switched off: each link of a picture repeats them."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an address of the graph asks for.

    `types` are begun at where neither starts nor a question are given; `hidden` and `hidden_edges` are types of nodes
    and of relations that are switched off. `rows` is how many lines of the list, `is_form` whether it came from a form.
    """

    starts: tuple[str, ...] = ()
    question: str = ""
    cost: float = COST
    nodes: int = NODES
    direction: str = "both"
    types: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    hidden_edges: tuple[str, ...] = ()
    as_of: str = ""
    rows: int = 0
    is_form: bool = False

    @classmethod
    def read(cls, asked: Asked) -> Wanted:
        """Raises Invalid where a number is none, or no direction is called so."""
        direction = asked.query.get("direction") or "both"
        if direction not in DIRECTIONS:
            raise Invalid("there is no such direction", at="direction", next=f"Known: {', '.join(DIRECTIONS)}.")
        starts = tuple(dict.fromkeys(text.strip() for text in asked.many("from") if text.strip()))
        if len(starts) > MOST_STARTS:
            raise Invalid(f"a picture begins at {MOST_STARTS} nodes at most", at="from", next="Leave some of them out.")
        hidden, hidden_edges = _off(asked, "hide", "of", "show"), _off(asked, "hide_edge", "of_edge", "show_edge")
        if max(len(hidden), len(hidden_edges)) > MOST_OFF:
            raise Invalid(f"at most {MOST_OFF} types are switched off", at="hide", next="Leave some of them out.")
        return cls(
            starts, asked.query.get("q", "").strip(), _number(asked, "cost", COST), int(_number(asked, "nodes", NODES)),
            direction, _some(asked, "type"), hidden, hidden_edges, asked.query.get("as_of", "").strip(),
            int(_number(asked, "rows", 0)), "form" in asked.query,
        )  # fmt: skip

    @property
    def is_whole(self) -> bool:
        """Whether nothing says where to begin."""
        return not (self.starts or self.question or self.types)

    def address(self, asked: Asked, page: str = "graph") -> str:
        """Where this is looked at; what is as usual is left out."""
        return asked.to(
            page, **{"from": list(self.starts)}, q="" if self.starts else self.question, cost=_told(self.cost, COST),
            nodes=_told(self.nodes, NODES), direction=self.direction if self.direction != "both" else "",
            type=list(self.types) if not self.starts else [], hide=list(self.hidden),
            hide_edge=list(self.hidden_edges), as_of=self.as_of, rows=_told(self.rows, 0),
        )  # fmt: skip

    def begun_at(self, asked: Asked, starts: Sequence[str]) -> str:
        """The address of the same picture, begun elsewhere; of the whole where that is nowhere."""
        return replace(self, starts=tuple(dict.fromkeys(starts)), question="", rows=0).address(asked)

    def now(self, asked: Asked) -> str:
        """The address of the same picture of what is known now."""
        return replace(self, as_of="").address(asked)

    def with_rows(self, asked: Asked, count: int) -> str:
        return replace(self, rows=count).address(asked)


def _some(asked: Asked, name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, asked.many(name))))


def _off(asked: Asked, name: str, offered: str, chosen: str) -> tuple[str, ...]:
    """What is switched off: by name, or by a form that offered it and in which it was not chosen."""
    shown = _some(asked, chosen)
    return tuple(sorted({*_some(asked, name), *_some(asked, offered)} - set(shown)))


def _number(asked: Asked, name: str, usual: float) -> float:
    text = asked.query.get(name, "").strip()
    try:
        number = float(text) if text else usual
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise Invalid(f"'{text[:40]}' is no number", at=name, next="Give a number, such as 1.5.")
    return number


def _told(number: float, usual: float) -> str:
    return "" if number == usual else f"{number:g}"
