"""What a token pushes below ``conflicts/`` speaks of nodes in its scope, or is refused whole."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from kgd.codec import documents, paths
from kgd.model.conflict import Conflict, FieldConflict, disagreement
from kgd.model.uri import Uri
from kgd.workspace.merging.files import record_files
from tests.hub.conftest import Hub
from tests.hub.test_git import Clone, clone, proposals
from tests.waiting import until

__all__ = ["clone"]

CHECKOUT, AUTH = Uri("concept://infra/app/checkout"), Uri("concept://infra/services/auth")
ABOUT_CHECKOUT = Conflict(CHECKOUT, {"summary": FieldConflict("x", ("evil", "x"))}, {"summary": 0})
MOVED = Conflict(AUTH, {"uri": FieldConflict(None, (CHECKOUT, AUTH))}, {"uri": 0})
PLANTS = {
    "by a name of its own": {
        "conflicts/concept/services/auth/0123456789abcdef.yaml": documents.encode_conflict(ABOUT_CHECKOUT)
    },
    "by the digest of its content": {
        paths.conflict_path(AUTH, ABOUT_CHECKOUT.digest): documents.encode_conflict(ABOUT_CHECKOUT)
    },
    "by a move out of the scope": record_files([MOVED], frozenset()),
}


@pytest.mark.slow
@pytest.mark.requirement("B5")
@pytest.mark.parametrize(
    "plant",
    [
        *[pytest.param(name, marks=pytest.mark.slow) for name in PLANTS][:1],
        *[*PLANTS][1:2],
        *[pytest.param(name, marks=pytest.mark.slow) for name in PLANTS][2:],
    ],
)
def test_a_conflict_out_of_scope_cannot_be_planted(hub: Hub, clone: Callable[..., Clone], plant: str) -> None:
    mine = clone(hub.mint("write,propose", "/services/**", name="mallory"))
    for path, data in PLANTS[plant].items():
        (mine.at / path).parent.mkdir(parents=True, exist_ok=True)
        (mine.at / path).write_bytes(data)
    mine.commit("innocent")
    before = proposals(hub)
    for ref in ("HEAD:main", "HEAD:refs/heads/proposals/x"):
        said = mine.git("push", "origin", ref, ok=False)
        assert "app/checkout" in said or "belongs at another path" in said
    assert proposals(hub) == before
    admin = hub.mint("read,write,resolve,admin", name="admin")
    told = hub.post(admin, "infra/resolve_conflicts", {"via": "agent"}).json
    told.pop("proposals", None)  # records of other tests
    assert "app/checkout" not in json.dumps(told)


@pytest.mark.slow
def test_a_conflict_tells_nothing_of_a_node_that_its_reader_may_not_see(hub: Hub, clone: Callable[..., Clone]) -> None:
    """Neither its new name, nor its text since it moved out of scope."""
    admin = clone(hub.mint("read,write,resolve,admin", name="admin"))
    hidden = "concept://infra/app/hidden-place"
    met, moved = Uri("concept://infra/services/met-twice"), Uri("concept://infra/services/moved-away")
    hub.put(met, summary="met")
    hub.put(moved, summary="one")
    hub.call("put", workspace="infra", changes=[{"op": "move", "uri": moved, "to": hidden}])
    hub.put(hidden, summary="a secret since")
    called = Conflict(met, {"uri": disagreement(None, (hidden, met))}, {"uri": 1})
    before = Conflict(moved, {"summary": disagreement("one", ("two", "three"))}, {"summary": 0})
    # A write reaches the branch a moment later.
    tip = hub.call("status", workspace="infra")["workspace"]["tip"]
    until(lambda: tip in admin.git("ls-remote", "origin", "main"))
    admin.git("pull", "--rebase", "origin", "main")
    for path, data in record_files([called, before], frozenset()).items():
        (admin.at / path).parent.mkdir(parents=True, exist_ok=True)
        (admin.at / path).write_bytes(data)
    admin.commit("met")
    admin.git("push", "origin", "HEAD:main")
    assert {called.id, before.id} <= {one["id"] for one in hub.call("conflicts", workspace="infra")["conflicts"]}
    reader = hub.mint("read,resolve", "/services/**", name="reader")
    told = [
        hub.post(reader, f"infra/{tool}", arguments).body.decode()
        for tool, arguments in (
            ("conflicts", {}),
            ("conflicts", {"id": called.id}),
            ("conflicts", {"id": before.id}),
            ("get", {"uris": [met]}),
            ("traverse", {"start": [met]}),
            ("resolve_conflicts", {"via": "agent"}),
            ("resolve_conflicts", {"ids": [called.id], "via": "agent"}),
        )
    ]
    assert not [text for text in told if "hidden-place" in text or "a secret since" in text]
    assert before.digest in told[0]
    assert called.digest not in told[0]
    takes = [{"id": called.id, "fields": {"uri": met}}, {"id": before.id, "take": "a"}]
    hub.call("resolve", workspace="infra", resolutions=takes)
