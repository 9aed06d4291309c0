"""Permissions for proposals, and groups by meaning."""

from __future__ import annotations

import pytest

from kgd.errors import Forbidden
from kgd.model.access import Principal, Scope, Verb
from kgd.tools import call
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.compression.conftest import Clock
from tests.compression.test_summaries import SAID
from tests.surfaces.conftest import Ask, upsert


def holder(session: Session, verbs: list[Verb], *paths: str) -> Session:
    scope = Scope.of("shop", verbs, list(paths))
    return Session(session.daemon, principal=Principal("t1", "Rea", "person", (scope,)))


def test_a_token_proposes_where_it_may_and_learns_of_nothing_else(ask: Ask, session: Session) -> None:
    for place in ("open", "secret"):
        ask.put(
            changes=[
                upsert(f"{place}/mail", name=f"Mail server {place}"),
                upsert(f"{place}/old/mail", name=f"Mail Server {place}"),
            ]
        )
    reader = holder(session, [Verb.READ], "/**")
    with pytest.raises(Forbidden, match="propose"):
        call(reader, "ingest", {"kind": "compression"})
    may = holder(session, [Verb.READ, Verb.PROPOSE], "/open/**")
    with pytest.raises(Forbidden):
        call(may, "ingest", {"kind": "compression", "uri": "concept://shop/secret"})
    found = call(may, "ingest", {"kind": "compression"})
    assert (found["counts"], found["nodes"]) == ({"merges": 1}, ["concept://shop/open/mail"])
    assert "secret" not in str(found)
    [waiting] = ask.proposals()["proposals"]
    assert waiting["author"].startswith("Rea")
    assert {one["nodes"][0] for one in ask.compress()["changes"]} == {"concept://shop/secret/mail"}


@pytest.mark.slow
def test_old_nodes_are_grouped_by_meaning(ask: Ask, ws: Workspace, clock: Clock) -> None:
    other = [
        "Customers pay with cards through Nova Bank.",
        "Users sign in with a password.",
        "A dark theme since May.",
        "Eight workers take jobs from a queue.",
    ]
    ask.put(changes=[upsert(f"notes/n{n}", name=f"Note {n}", content=text) for n, text in enumerate([*SAID, *other])])
    clock.days(200)
    ws.meaning.follow()
    assert ws.meaning.catch_up(60)
    assert "1 groups of old nodes" in ask.compress(dry_run=True)["next"]
    found = call(ask.session, "ingest", {"kind": "compression"})
    [group] = found["task"]["groups"]
    assert {one["uri"].rpartition("/")[2] for one in group["texts"]} == {"n0", "n1", "n2"}
