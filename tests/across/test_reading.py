"""Reading nodes of other workspaces: complete, fenced, with their origin, and with the reason if missing."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from mcp import Client
from mcp.types import CallToolResult

from kgd.daemon.other_workspaces import LastSeen
from kgd.errors import Forbidden, NotFound, Unavailable
from kgd.mcp.server import Surface
from tests.across.sites import Hub, Site, node

MakeSite = Callable[[str], Site]
MakeHub = Callable[[Site], Hub]

LONG = "".join(f"line {n} of what the other team wrote\n" for n in range(3_000))


@pytest.fixture
def here(site: MakeSite, hub: MakeHub) -> Site:
    there = site("there")
    there.up(
        "infra",
        node(
            "concept://infra/keys",
            ("concept://infra/long", 0.5),
            name="Keys",
            summary="how keys are kept",
            content="first line\u202esecond\u2028third",
            tags=["jwt"],
        ),
        node("concept://infra/long", content=LONG),
        node("decision://infra/secret/plan", content="not for everybody"),
    )
    served = hub(there)
    here = site("here")
    here.up("shop", node("concept://shop/a", ("concept://infra/keys", 0.5)))
    here.know_hub(served, "infra", token=served.token(["infra"], paths=["/keys", "/long", "/gone"]))
    here.hub = served  # type: ignore[attr-defined]
    return here


def test_a_node_of_a_hub_is_read_in_full_with_its_origin(here: Site) -> None:
    (found,) = here.ask("get", uris=["concept://infra/keys"])["nodes"]
    assert (found["name"], found["summary"], found["tags"], found["version"]) == (
        "Keys",
        "how keys are kept",
        ["jwt"],
        1,
    )
    assert found["relations"] == [{"type": "uses", "target": "concept://infra/long", "weight": 0.5}]
    assert found["origin"]["workspace"] == "infra"
    assert found["origin"]["trust"] == "remote"
    assert found["origin"]["commit"]


@pytest.mark.requirement("E11")
def test_foreign_text_shows_its_invisible_characters(here: Site) -> None:
    (found,) = here.ask("get", uris=["concept://infra/keys"])["nodes"]
    assert found["content"] == "first line\\u202esecond\\u2028third"


def test_nodes_of_here_and_there_come_in_the_order_in_which_they_were_asked_for(here: Site) -> None:
    found = here.ask("get", uris=["concept://infra/gone", "concept://shop/a", "concept://infra/keys"], workspace="shop")
    assert [one["uri"] for one in found["nodes"]] == ["concept://shop/a", "concept://infra/keys"]
    (missing,) = found["missing"]
    assert (missing["uri"], missing["reason"], missing["workspace"]) == ("concept://infra/gone", "gone", "infra")


@pytest.mark.slow
def test_a_long_node_of_a_hub_continues_by_cursor_to_its_end(here: Site) -> None:
    read, cursor = "", None
    while True:
        found = here.ask("get", uris=["concept://infra/long"], budget=8_000, **({"cursor": cursor} if cursor else {}))
        read += found["nodes"][0].get("content", "")
        cursor = found.get("cursor")
        if not cursor:
            break
    assert read == LONG


def test_only_the_unreadable_nodes_are_refused(here: Site) -> None:
    found = here.ask("get", uris=["decision://infra/secret/plan", "concept://infra/keys"])
    assert [one["uri"] for one in found["nodes"]] == ["concept://infra/keys"]
    assert [one["reason"] for one in found["missing"]] == ["forbidden"]
    with pytest.raises(Forbidden):
        here.ask("traverse", start=["decision://infra/secret/plan"])


def test_an_unreachable_hub_is_named_with_the_time_it_was_last_seen(here: Site) -> None:
    here.ask("get", uris=["concept://infra/keys"])
    here.hub.stop()  # type: ignore[attr-defined]
    (missing,) = here.ask("get", uris=["concept://infra/keys"])["missing"]
    assert missing["reason"] == "unreachable"
    assert missing["last_seen"]
    here.restart()
    (again,) = here.ask("get", uris=["concept://infra/keys"])["missing"]
    assert again["last_seen"] == missing["last_seen"], "a restart does not forget it"
    with pytest.raises(Unavailable, match="last seen"):
        here.ask("traverse", start=["concept://infra/keys"])


@pytest.mark.parametrize("way", ["whoami", "submission", "refusal", "another workspace"])
def test_any_answer_of_a_hub_counts_as_seen(here: Site, way: str) -> None:
    served: Hub = here.hub  # type: ignore[attr-defined]
    here.know("other", hub=served.url, token=here.daemon.registry.current().entries["infra"].token)
    change = {"op": "upsert", "uri": "concept://infra/keys", "summary": "new"}
    if way == "whoami":
        here.ask("whoami")
    elif way == "submission":
        with pytest.raises(Forbidden):
            here.ask("submit_subgraph", remote="infra", changes=[change])
    elif way == "refusal":
        here.ask("get", uris=["decision://infra/secret/plan"])
    else:
        here.ask("get", uris=["concept://infra/keys"])
    served.stop()
    id = "other" if way == "another workspace" else "infra"
    (missing,) = here.ask("get", uris=[f"concept://{id}/keys"])["missing"]
    assert missing["last_seen"]


def test_a_hub_that_replaces_another_has_not_been_seen_yet(here: Site) -> None:
    served: Hub = here.hub  # type: ignore[attr-defined]
    here.ask("get", uris=["concept://infra/keys"])
    path = Path(here.home.registry)
    path.write_text(path.read_text().replace(served.url, "http://127.0.0.1:9"))
    (missing,) = here.ask("get", uris=["concept://infra/keys"])["missing"]
    assert (missing["reason"], "last_seen" in missing) == ("unreachable", False)


def test_last_seen_is_the_time_of_the_last_answer_and_outlives_a_daemon_that_ends(tmp_path: Path) -> None:
    moments = iter([1_000.0, 1_007.0])
    seen = LastSeen(tmp_path / "seen", lambda: next(moments))
    seen.note(["infra"])
    seen.note(["infra"])
    assert seen.at("infra") == 1_007.0
    assert LastSeen(tmp_path / "seen", time.time).at("infra") == 1_000.0, "after a kill"
    seen.close()
    assert LastSeen(tmp_path / "seen", time.time).at("infra") == 1_007.0


def test_a_walk_may_start_on_a_hub(here: Site) -> None:
    found = here.ask("traverse", start=["keys"], workspace="infra")
    assert found["workspace"] == "infra"
    assert [one["uri"] for one in found["nodes"]] == ["concept://infra/keys", "concept://infra/long"]
    with pytest.raises(NotFound):
        here.ask("traverse", start=["concept://infra/gone"])


@pytest.mark.slow
def test_search_and_history_of_a_hub_are_asked_of_the_hub(here: Site) -> None:
    found = here.ask("search", query="kept", workspace="infra")
    assert [one["uri"] for one in found["hits"]] == ["concept://infra/keys", "concept://infra/long"]
    assert found["hits"][1]["path"] == ["concept://infra/keys", "concept://infra/long"]
    assert found["origin"] == {"workspace": "infra", "trust": "remote"}
    found = here.ask("history", uri="concept://infra/keys")
    assert found["workspace"] == "infra"
    assert len(found["commits"]) == 1


@pytest.mark.slow
def test_context_of_a_hub_is_asked_of_the_hub(here: Site) -> None:
    found = here.ask("context", question="what is kept?", workspace="infra")
    assert "concept://infra/keys" in [one["uri"] for one in found["items"]]
    assert found["origin"] == {"workspace": "infra", "trust": "remote"}


@pytest.mark.slow
@pytest.mark.anyio
async def test_an_mcp_client_searches_a_hub_as_the_command_line_does(here: Site) -> None:
    async with Client(Surface(here.daemon).server) as client:
        result = await client.call_tool("search", {"query": "kept", "workspace": "infra"})
    assert isinstance(result, CallToolResult)
    assert result.structured_content == here.ask("search", query="kept", workspace="infra")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_an_unknown_workspace_is_refused_with_similar_names(here: Site) -> None:
    with pytest.raises(NotFound, match="Did you mean 'infra'"):
        here.ask("get", uris=["concept://infro/keys"])


def test_a_walk_cannot_be_used_to_write(here: Site) -> None:
    for given in ({"workspace": "infra"}, {}):
        with pytest.raises(Forbidden, match="submit_subgraph"):
            here.ask("put", changes=[{"op": "upsert", "uri": "concept://infra/keys", "summary": "mine"}], **given)


def test_a_hub_node_listed_first_does_not_hide_local_nodes(here: Site) -> None:
    found = here.ask("get", uris=["concept://infra/keys", "concept://shop/a"])
    assert [one["uri"] for one in found["nodes"]] == ["concept://infra/keys", "concept://shop/a"]


def test_whoami_and_status_work_in_a_home_with_only_a_hub(site: MakeSite, here: Site) -> None:
    alone = site("alone")
    alone.know_hub(here.hub, "infra", token=here.hub.token(["infra"]))  # type: ignore[attr-defined]
    assert alone.ask("whoami")["hubs"][0]["workspaces"]
    assert "infra" in alone.ask("status")["next"]
