"""Exact names: the definition of a name in the query comes first, then its uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kgd.index import exact_names, ranking
from kgd.model.lane import Lane
from kgd.model.uri import Uri
from kgd.retrieval.code import is_aside

if TYPE_CHECKING:
    from kgd.index.ranking import Found
    from kgd.index.text import TextIndex
    from kgd.retrieval.candidates import Pool, Unit
    from kgd.retrieval.relevance import Sees

MOST = 60
"""Maximum number of nodes with one name to rank by their uses."""
BONUS = 0.4
"""Bonus of a symbol whose name is in the query, multiplied by `Unit.named`."""
WHOLE, PART = 2.0, 1.0
"""The value of `Unit.named` if the whole query is the name, and if the name is one of its words. Uses and spelling add
less than 1."""


def add(pool: Pool, index: TextIndex, filters: dict[str, Any], may: Sees) -> None:
    """Add units for the nodes whose name is in the query."""
    asked = exact_names.asked_in(pool.question.query)
    whole = exact_names.fold(pool.question.query.strip().removesuffix("()"))
    for name in asked:
        how = WHOLE if exact_names.fold(name.removesuffix("()")) == whole else PART
        for found, is_exact in sorted(index.called(name, may, **filters), key=_order)[:MOST]:
            unit = pool.take(found._replace(tier=ranking.ALL if how == WHOLE else ranking.SOME))
            unit.named = max(unit.named, how + (0.3 if is_exact else 0.0))
            unit.called = unit.called or found.uri
            pool.called[found.uri] = unit.key


def _order(called: tuple[Found, bool]) -> tuple[bool, bool, bool, Uri]:
    """The sort key: nodes spelled as in the query first; tests, and additional definitions in one file, last."""
    found, is_exact = called
    return not is_exact, is_aside(found.uri), "~" in found.uri, found.uri


def is_asked(unit: Unit, pool: Pool) -> bool:
    """Whether a unit's name is the subject of the query, and not one of many words of a sentence."""
    return unit.named > (0.0 if pool.is_short else WHOLE - 1)


def by_uses(pool: Pool, uses: Callable[[Uri], int]) -> None:
    """Order the named units by spelling, nesting and uses; tests and examples come last."""
    for uri, key in pool.called.items():
        unit = pool.units.get(key)
        if unit is None:
            continue
        often = uses(uri)
        unit.named += 0.5 * often / (often + 5) - 0.1 * min(4, uri.rpartition("/")[2].count("."))
        if unit.lane is Lane.CODE and is_aside(uri):
            unit.named -= 0.5
