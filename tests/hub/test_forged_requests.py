"""A push may claim any request id, and no other change counts as done because of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.hub.conftest import Hub
from tests.hub.test_git import Clone, clone, proposals, summary_of

__all__ = ["clone"]

URI = "concept://infra/services/"


def claim(mine: Clone, name: str, request: str, ref: str = "HEAD:main") -> None:
    """Push a commit that is in scope, and whose message says that it carried out this request."""
    mine.write(f"nodes/concept/services/{name}.yaml", "planted")
    mine.commit(f"innocent\n\nKgd-Request: {request}\nKgd-Seal: {'0' * 64}")
    mine.git("push", "origin", ref)


def change(name: str) -> dict[str, object]:
    return {"op": "upsert", "uri": URI + name, "summary": "precious"}


@pytest.mark.slow
@pytest.mark.requirement("B5")
def test_a_pushed_commit_stands_for_no_request_of_another_token(hub: Hub, clone: Callable[..., Clone]) -> None:
    victim = hub.mint("read,write", "/services/**", name="victim")
    claim(clone(hub.mint("write", "/services/**", name="mallory")), "planted-1", f"{victim.split('_')[2]}/req-1")
    answer = hub.post(victim, "infra/put", {"request_id": "req-1", "changes": [change("wanted-1")]}).json
    assert not answer.get("repeated")
    assert summary_of(hub, "services/wanted-1") == "precious"


@pytest.mark.slow
def test_nor_of_the_keeper_nor_as_a_proposal(hub: Hub, clone: Callable[..., Clone]) -> None:
    mine = clone(hub.mint("write", "/services/**", name="mallory"))
    claim(mine, "planted-2", "nightly-42")
    done = hub.call("put", workspace="infra", request_id="nightly-42", changes=[change("wanted-2")])
    assert not done.get("repeated")
    assert summary_of(hub, "services/wanted-2") == "precious"
    victim = hub.mint("propose", "/services/**", name="victim")
    claim(mine, "planted-3", f"{victim.split('_')[2]}/req-7", "HEAD:refs/heads/proposals/hh")
    asked = {"request_id": "req-7", "changes": [change("wanted-3")]}
    answer = hub.post(victim, "infra/submit_subgraph", asked).json
    assert (answer["outcome"], answer.get("repeated")) == ("proposed", None)
    assert answer["proposal"].partition("@")[0] in [name.removeprefix("proposals/") for name in proposals(hub)]
    (shown,) = hub.call("proposals", workspace="infra", name=answer["proposal"])["proposals"]
    assert shown["author"].startswith("victim")
