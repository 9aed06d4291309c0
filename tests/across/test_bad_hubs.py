"""Slow, dead and hostile hubs: a walk continues, names them, and accepts only statements about their own nodes."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from kgd.sync.hubs import DEADLINE, GRACE
from tests.across.counter import Counter, always, http
from tests.across.sites import Site, names, node

MakeSite = Callable[[str], Site]


def shop(site: MakeSite, *urls: str) -> Site:
    """A workspace with a relation into a workspace of each hub, and a node of its own behind them."""
    here = site("here")
    links = [(f"concept://far{n}/x", 0.25) for n in range(len(urls))]
    here.up("shop", node("concept://shop/a", *links, ("concept://shop/b", 0.5)), node("concept://shop/b", name="mine"))
    for n, url in enumerate(urls):
        here.know(f"far{n}", hub=url)
    return here


def found(*nodes: dict[str, Any], **more: Any) -> bytes:
    answer = {"workspace": "far0", "nodes": list(nodes), "edges": [], "cut": [], "broken_links": [], "conflicts": []}
    return orjson.dumps({**answer, **more})


def one(uri: str, **fields: Any) -> dict[str, Any]:
    return {"uri": uri, "type": "concept", "name": "x", "cost": 0, **fields}


@pytest.mark.slow
@pytest.mark.requirement("E12")
def test_slow_hubs_share_one_deadline_and_cost_the_next_walk_nothing(site: MakeSite) -> None:
    def silent(peer: socket.socket, counter: Counter) -> None:
        counter.read(peer)
        counter.closing.wait(30)

    with Counter(silent) as first, Counter(silent) as second:
        here = shop(site, first.url, second.url)
        begun = time.monotonic()
        answer = here.ask("traverse", start=["concept://shop/a"])
        took = time.monotonic() - begun
        assert DEADLINE * 0.9 < took < DEADLINE + GRACE + 1
        assert names(answer) == ["shop/a", "shop/b"]
        assert [(link["target"], link["reason"]) for link in answer["broken_links"]] == [
            ("concept://far0/x", "unreachable"),
            ("concept://far1/x", "unreachable"),
        ]
        assert "last_seen" not in answer["broken_links"][0]
        asked = len(first.seen), len(second.seen)
        assert asked != (0, 0)
        assert names(here.ask("traverse", start=["concept://shop/a"])) == ["shop/a", "shop/b"]
        assert (len(first.seen), len(second.seen)) == asked
        assert any(first.url in problem for problem in here.ask("status")["degraded"])


def test_a_hub_speaks_for_its_own_nodes_alone(site: MakeSite) -> None:
    lies = found(
        one("concept://far0/x", name="theirs"),
        one("concept://shop/b", name="not yours"),
        one("concept://shop/invented", name="not yours"),
        one("concept://elsewhere/y", name="not yours"),
        edges=[
            {"source": "concept://far0/x", "target": "concept://shop/b", "type": "uses", "weight": 0.1},
            {"source": "concept://shop/b", "target": "concept://far0/x", "type": "forged", "weight": 0},
            {"source": "concept://far0/x", "target": "concept://shop/invented", "type": "uses", "weight": 0.1},
        ],
    )
    with Counter(always(http("200 OK", lies))) as hub:
        answer = shop(site, hub.url).ask("traverse", start=["concept://shop/a"], include="edges")
    assert names(answer) == ["shop/a", "far0/x", "shop/b"]
    assert answer["nodes"][2]["name"] == "mine"
    assert "origin" not in answer["nodes"][2]
    assert "forged" not in {edge["type"] for edge in answer["edges"]}
    assert [(b["target"], b["reason"]) for b in answer["broken_links"]] == [("concept://shop/invented", "missing")]


@pytest.mark.requirement("E12")
def test_claims_and_hidden_characters_of_a_hub_are_not_trusted(site: MakeSite) -> None:
    text = "ig\u202enore\x1b[31m \U000e0041tags\nand lines " + "x" * 5_000
    said = found(
        one(
            "concept://far0/x",
            name=text,
            summary=text,
            type="decision\u2066",
            origin={"workspace": "shop", "trust": "local", "commit": "not a commit", "author": "Ann\u202e"},
        )
    )
    with Counter(always(http("200 OK", said))) as hub:
        (_, far, _) = shop(site, hub.url).ask("traverse", start=["concept://shop/a"])["nodes"]
    assert far["origin"] == {"workspace": "far0", "trust": "remote", "author": "Ann\\u202e"}
    assert far["type"] == "decision\\u2066"
    assert far["name"].startswith("ig\\u202enore\\x1b[31m \\U000e0041tags and lines")
    assert len(far["summary"]) <= 100
    assert all(char.isprintable() for field in ("name", "summary", "type") for char in far[field])


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b"null",
        b"not json",
        b'{"nodes": 7, "edges": {}, "broken_links": "x", "cut": [7]}',
        found({"uri": 7}, {"uri": "concept://far0/../x"}, {"uri": "CONCEPT://far0/x"}, {}, 7),  # type: ignore[arg-type]
        found(one("concept://far0/x", cost="cheap"), one("concept://far0/x", cost=-1), one("concept://far0/x", path=7)),
        found(*(one("concept://far0/x", via=via) for via in (7, {"from": 7}, {"from": "concept://x/y", "through": 7}))),
        found(one("concept://far0/x", cost=1e300), edges=[{"source": "concept://far0/x", "weight": float("nan")}]),
        found(cursor="again and again"),
        found(missing=[["x"], 7, "concept://far0/x"], absent=[{"uri": {}, "reason": []}]),
    ],
)
def test_a_malformed_hub_answer_is_left_out(site: MakeSite, body: bytes) -> None:
    with Counter(always(http("200 OK", body))) as hub:
        answer = shop(site, hub.url).ask("traverse", start=["concept://shop/a"])
    assert names(answer) == ["shop/a", "shop/b"]
    assert [link["target"] for link in answer["broken_links"]] == ["concept://far0/x"]


def test_pages_without_end_come_to_an_end(site: MakeSite) -> None:
    def endless(peer: socket.socket, counter: Counter) -> None:
        while counter.read(peer):
            n = len(counter.seen)
            page = found(one("concept://far0/x"), one(f"concept://far0/{n}", cost=0.001 * n), cursor=f"page {n}")
            peer.sendall(http("200 OK", page))

    with Counter(endless) as hub:
        answer = shop(site, hub.url).ask("traverse", start=["concept://shop/a"], max_nodes=30)
        assert len(answer["nodes"]) <= 30
        assert len(hub.seen) < 100


def test_two_workspaces_that_hold_one_page_are_one_node_with_two_origins(site: MakeSite) -> None:
    here, page = site("here"), "https://example.org/spec"
    here.up("infra", node("concept://infra/keys", (page, 0.5)), node(page, ("concept://infra/keys", 0.25)))
    here.up("shop", node("concept://shop/a", (page, 0.25)), node(page, name="Spec"))
    answer = here.ask("traverse", start=["concept://shop/a"])
    assert [one["uri"] for one in answer["nodes"]] == ["concept://shop/a", page, "concept://infra/keys"]
    assert [origin["workspace"] for origin in answer["nodes"][1]["origins"]] == ["shop", "infra"]
