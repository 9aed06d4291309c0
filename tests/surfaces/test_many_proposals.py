"""More proposals than one answer shows: foreign proposals never displace those for the caller to decide."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kgd.model.access import Principal, Scope
from kgd.tools.proposals.proposals import LISTED, PROPOSALS
from kgd.tools.session import Session
from tests.surfaces.conftest import Ask, upsert

As = Callable[..., Ask]


@pytest.fixture
def holds(session: Session) -> As:
    def make(verbs: str, *paths: str, name: str = "billing-agent", id: str = "tok00001") -> Ask:
        principal = Principal(id, name, "agent", (Scope.of("shop", verbs.split(","), paths),))
        return Ask(Session(session.daemon, client="claude", trusted=False, principal=principal))

    return make


def test_proposals_of_another_scope_hide_none_of_the_callers(ask: Ask, holds: As) -> None:
    other = holds("propose", "/other/**", name="other", id="tok00009")
    for n in range(LISTED + 2):
        other.submit_subgraph(changes=upsert(f"other/{n}", name="N"))
    for n in range(2):
        holds("propose", "/infra/**").submit_subgraph(changes=upsert(f"infra/{n}", name="N"))
    decides, reads = holds("read,write", "/infra/**", id="tok00002"), holds("read", "/infra/**", id="tok00003")
    waiting = decides.resolve_conflicts(via="agent")["proposals"]
    assert [one["nodes"] for one in waiting] == [["concept://shop/infra/0"], ["concept://shop/infra/1"]]
    assert "proposals" not in reads.resolve_conflicts(via="agent"), "seen, and not for this caller to decide"
    listed = PROPOSALS.call(reads.session, {"limit": 1})
    assert (len(listed["proposals"]), listed["total"]) == (1, 2)
    assert listed["proposals"][0]["nodes"] == ["concept://shop/infra/0"]


def test_a_proposal_that_also_touches_foreign_nodes_cannot_be_decided(ask: Ask, holds: As) -> None:
    changes = [upsert(f"infra/{n:02}", name="N") for n in range(30)] + [upsert("zoo/x", name="N")]
    holds("propose", "/**").submit_subgraph(changes=changes)
    both = Principal(
        "tok00004",
        "both",
        "agent",
        (
            Scope.of("shop", ["read"], ["/**"]),
            Scope.of("shop", ["write", "resolve"], ["/infra/**"]),
        ),
    )
    some = Ask(Session(ask.session.daemon, client="claude", trusted=False, principal=both))
    assert PROPOSALS.call(some.session, {})["total"] == 1
    assert "proposals" not in some.resolve_conflicts(via="agent")
