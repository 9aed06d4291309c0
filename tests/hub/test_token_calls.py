"""Calls by holders of tokens: the operations that a token allows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kgd.model.access import Principal, Scope
from kgd.tools import SERVED, Catalogue
from kgd.tools.hubs.token_calls import allowed, visible


def holder(verb: str) -> Principal:
    return Principal("t1", "billing", "agent", (Scope.of("infra", [verb], ["/**"]),))


@pytest.mark.parametrize("verb", ["read", "admin"])
def test_an_operation_is_allowed_if_it_is_among_the_visible_ones(verb: str) -> None:
    seen = visible(SERVED, holder(verb))
    assert {name for name in SERVED if allowed(SERVED, holder(verb), name)} == set(seen)
    assert ("sync" in seen) == (verb == "admin")
    assert allowed(SERVED, holder(verb), "nothing") is None


def test_a_call_looks_at_no_other_operation() -> None:
    class Single(Catalogue):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError("all operations were looked at")

    found = allowed(Single(SERVED.entries), holder("read"), "get")
    assert found is not None
    assert found.name == "get"
