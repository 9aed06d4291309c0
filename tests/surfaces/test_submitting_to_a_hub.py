"""Submissions to a hub in another process, with a token for `/infra/**` only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.config.entries import Entry
from kgd.config.registry import RegistryFile
from kgd.errors import Forbidden, Stale, Unauthorized, Unavailable
from kgd.tools.session import Session
from tests.hub.conftest import Hub, new_hub
from tests.surfaces.conftest import Ask, upsert

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = new_hub(tmp_path_factory.mktemp("hub")).start()
    found.put("concept://infra/infra/known", content="as it was\n", summary="s")
    yield found
    found.stop()


def join(session: Session, hub: Hub, folder: Path, verbs: str, paths: str = "/infra/**") -> str:
    """Register the hub's workspace with a new token; returns the token's id."""
    made = hub.call(
        "token_mint", workspace="infra", verbs=verbs.split(","), paths=[paths], name="billing-agent", expires="1d"
    )
    kept = folder / "token"
    kept.write_text(str(made["token"]))
    kept.chmod(0o600)
    RegistryFile(session.daemon.home).register(Entry("infra", hub=hub.url, token=f"file:{kept}"), replace=True)
    return str(made["id"])


@pytest.mark.requirement("B9")
@pytest.mark.requirement("E17")
def test_a_submission_with_write_permission_is_one_commit_on_the_hub(ask: Ask, hub: Hub, tmp_path: Path) -> None:
    join(ask.session, hub, tmp_path, "read,write")
    done = ask.submit_subgraph(
        remote="infra",
        message="learned",
        request_id="r1",
        changes=[upsert("concept://infra/infra/new", name="N"), upsert("infra/known", tags=["seen"])],
    )
    assert (done["outcome"], done["remote"]) == ("merged", "infra")
    assert [one["uri"] for one in done["changes"]] == ["concept://infra/infra/new", "concept://infra/infra/known"]
    (commit,) = hub.call("history", workspace="infra", commit=done["commit"])["commits"]
    assert (commit["author"], commit["message"]) == ("billing-agent", "learned")
    again = ask.submit_subgraph(
        remote="infra",
        message="learned",
        request_id="r1",
        changes=[upsert("concept://infra/infra/new", name="N"), upsert("infra/known", tags=["seen"])],
    )
    assert again["commit"] == done["commit"]


@pytest.mark.requirement("E16")
def test_a_submission_with_propose_permission_waits_on_the_hub(ask: Ask, hub: Hub, tmp_path: Path) -> None:
    join(ask.session, hub, tmp_path, "propose")
    done = ask.submit_subgraph(remote="infra", changes=[upsert("concept://infra/infra/p", name="P")])
    assert done["outcome"] == "proposed"
    listed = hub.call("proposals", workspace="infra")["proposals"]
    assert done["proposal"] in [one["id"] for one in listed]
    hub.call("accept", workspace="infra", name=done["proposal"])
    assert hub.call("get", workspace="infra", uris=["concept://infra/infra/p"])["nodes"]
    tip = hub.call("status", workspace="infra")["workspace"]["tip"]
    with pytest.raises(Forbidden, match="concept://infra/db/x"):
        ask.submit_subgraph(remote="infra", changes=[upsert("infra/q"), upsert("concept://infra/db/x", name="X")])
    assert hub.call("status", workspace="infra")["workspace"]["tip"] == tip


def test_a_dry_run_predicts_the_outcome_by_scope_and_sends_nothing(ask: Ask, hub: Hub, tmp_path: Path) -> None:
    tip = hub.call("status", workspace="infra")["workspace"]["tip"]
    changes = [upsert("infra/dry", name="D"), upsert("concept://infra/db/x", name="X")]
    join(ask.session, hub, tmp_path, "read,write")
    told = ask.would_submit(remote="infra", changes=changes[0])
    assert (told["outcome"], told["dry_run"], told["look"]) == ("merged", True, "The hub tried it, and wrote nothing.")
    assert told["changes"] == [{"index": 0, "op": "upsert", "uri": "concept://infra/infra/dry", "outcome": "merged"}]
    told = ask.would_submit(remote="infra", changes=changes)
    assert [one["outcome"] for one in told["changes"]] == ["merged", "refused"]
    assert told["outcome"] == "refused"
    with pytest.raises(Stale):
        ask.would_submit(remote="infra", changes=upsert("infra/known", content="unseen\n"))
    ask.put(changes=upsert("infra/own", summary="ours"))
    join(ask.session, hub, tmp_path, "propose")
    told = ask.would_submit(remote="infra", roots=["infra/own"])
    assert (told["outcome"], told["changes"][0]["uri"]) == ("proposed", "concept://infra/infra/own")
    assert hub.call("status", workspace="infra")["workspace"]["tip"] == tip
    assert hub.call("get", workspace="infra", uris=["concept://infra/infra/own"])["nodes"] == []


def test_submitted_nodes_get_the_id_of_the_target_workspace(ask: Ask, hub: Hub, tmp_path: Path) -> None:
    join(ask.session, hub, tmp_path, "read,write")
    ask.put(
        changes=[
            upsert(
                "infra/mine",
                summary="ours",
                relations=[
                    {"type": "uses", "target": "infra/part", "weight": 0.2},
                    {"type": "uses", "target": "infra/far"},
                ],
            ),
            upsert("infra/part", content="text\n"),
            upsert("infra/far", name="F"),
        ]
    )
    done = ask.submit_subgraph(remote="infra", roots=["infra/mine"], max_cost=0.2)
    assert done["outcome"] == "merged"
    (node,) = hub.call("get", workspace="infra", uris=["concept://infra/infra/mine"])["nodes"]
    assert sorted(one["target"] for one in node["relations"]) == [
        "concept://infra/infra/part",
        "concept://shop/infra/far",
    ]


def test_a_replacement_needs_the_seen_base(ask: Ask, hub: Hub, tmp_path: Path) -> None:
    join(ask.session, hub, tmp_path, "read,write")
    base = hub.call("status", workspace="infra")["workspace"]["tip"]
    change = upsert("infra/known", content="new\n")
    with pytest.raises(Stale):
        ask.submit_subgraph(remote="infra", changes=change)
    hub.put("concept://infra/infra/known", name="K")
    assert ask.submit_subgraph(remote="infra", changes=change, base=base)["outcome"] == "merged"
    late = ask.submit_subgraph(remote="infra", changes=upsert("infra/known", content="other\n"), base=base)
    assert (late["outcome"], late["conflicts"]) == ("proposed", ["concept://infra/infra/known"])


def test_a_revoked_token_and_an_unreachable_hub_are_reported(ask: Ask, hub: Hub, tmp_path: Path) -> None:
    id = join(ask.session, hub, tmp_path, "write")
    hub.call("token_revoke", id=id)
    with pytest.raises(Unauthorized):
        ask.submit_subgraph(remote="infra", changes=upsert("infra/x"))
    RegistryFile(ask.session.daemon.home).register(Entry("infra", hub="http://127.0.0.1:1"), replace=True)
    with pytest.raises(Unavailable):
        ask.submit_subgraph(remote="infra", changes=upsert("infra/x"))
