"""`traverse`: near nodes by cost, and a reason for every omission."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from kgd.errors import NotFound
from kgd.tools import TOOLS
from kgd.tools.paging import HARD_LIMIT, RESERVE, size_of
from kgd.tools.read import traverse
from tests.surfaces.conftest import Ask, upsert


def link(source: str, target: str, weight: float = 1.0, type: str = "uses") -> dict[str, Any]:
    return {"op": "relate", "source": source, "target": target, "type": type, "weight": weight}


@pytest.fixture(scope="module")
def chain(shared: Callable[[], Ask]) -> Ask:
    """The chain for tests that only read."""
    return chained(shared())


@pytest.fixture
def own_chain(ask: Ask) -> Ask:
    """The chain for tests that change it."""
    return chained(ask)


def chained(ask: Ask) -> Ask:
    """a -0-> b -0.5-> c -0.5-> d -0.5-> e, and a -1-> c."""
    ask.put(changes=[upsert(name, summary=name) for name in "abcde"])
    ask.put(
        changes=[
            link("a", "b", 0),
            link("b", "c", 0.5),
            link("c", "d", 0.5),
            link("d", "e", 0.5),
            link("a", "c", 1, "see"),
        ]
    )
    return ask


def names(answer: Any) -> list[str]:
    return [node["uri"].rsplit("/", 1)[1] for node in answer["nodes"]]


@pytest.mark.requirement("E4")
def test_a_node_is_in_when_its_cheapest_path_costs_at_most_1(chain: Ask) -> None:
    answer = chain.traverse(start="a")
    assert [(node["uri"][-1], node["cost"]) for node in answer["nodes"]] == [("a", 0), ("b", 0), ("c", 0.5), ("d", 1)]
    assert answer["nodes"][2]["via"] == {"from": "concept://shop/b", "type": "uses"}
    assert {"limit": "max_cost", "at": "concept://shop/d", "count": 1} in answer["cut"]


def test_an_empty_end_of_a_path_is_none(chain: Ask) -> None:
    assert names(chain.traverse(start="b", to="")) == names(chain.traverse(start="b")) == ["b", "c", "d"]


@pytest.mark.requirement("N5")
@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"start": "a", "to": "d"}, "abcd"),
        ({"start": "d", "to": "a"}, "dcba"),
        ({"start": ["a", "d"], "to": "e", "max_nodes": 1}, "de"),
        ({"start": "a", "to": "a"}, "a"),
        ({"start": "a", "to": "d", "max_depth": 2}, "acd"),
        ({"start": "a", "to": "c", "edge_types": "see"}, "ac"),
    ],
)
def test_the_cheapest_path_between_two_nodes_is_answered_alone(chain: Ask, options: dict[str, Any], found: str) -> None:
    answer = chain.traverse(**options)
    assert ("".join(names(answer)), answer["cut"]) == (found, [])
    assert "unreached" not in answer


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"to": "d"}, {"acd": 1.5}),
        ({"to": "d", "max_cost": 1}, {}),
        ({"to": "d", "max_depth": 2}, {}),
        ({"to": "d", "edge_types": "uses"}, {}),
        ({"to": "a"}, {}),
        ({}, None),
    ],
)
def test_further_paths_are_answered_on_request(chain: Ask, options: dict[str, Any], found: dict[str, float]) -> None:
    answer = chain.traverse(start="a", include="alternatives", **options)
    paths = answer.get("alternatives")
    assert (paths and {"".join(names(one)): one["cost"] for one in paths}) == (found or paths)
    assert (paths is None) == (found is None)
    for one in paths or ():
        assert [edge["weight"] for edge in one["edges"]] == [1, 0.5]
        text = TOOLS["traverse"].text(answer)
        assert "another path, cost 1.5: `concept:a` see -> `concept:c` uses -> `concept:d`" in text


def test_the_nodes_of_further_paths_have_no_paths_of_the_walks_that_found_them(chain: Ask) -> None:
    answer = chain.traverse(start="a", to="d", include=["path", "alternatives"])
    assert "path" in answer["nodes"][-1]
    assert not any("path" in node for one in answer["alternatives"] for node in one["nodes"])


def test_further_paths_without_room_are_counted(ask: Ask) -> None:
    ask.put(changes=[upsert(name, summary=name * 90) for name in "abc"])
    ask.put(changes=[link("a", "b", 0.1), link("b", "c", 0.1), link("a", "c", 1, "see")])
    given: dict[str, Any] = {"start": "a", "to": "c", "include": "alternatives"}
    (other,) = ask.traverse(**given)["alternatives"]
    sizes = (size_of(ask.traverse(start="a", to="c")), size_of(other))
    answer = ask.traverse(**given, budget=(sum(sizes) + RESERVE) // 4 - size_of(other) // 8)
    assert (names(answer)[-1], answer["alternatives"]) == ("c", [])
    assert answer["cut"] == [{"limit": "alternatives", "at": "concept://shop/c", "count": 1}]


def test_a_page_with_a_part_of_a_path_has_no_further_paths(ask: Ask) -> None:
    ask.put(changes=[upsert(name, summary=name * 90) for name in "abc"])
    ask.put(changes=[link("a", "b", 0.1), link("b", "c", 0.1), link("a", "c", 1, "see")])
    given: dict[str, Any] = {"start": "a", "to": "c", "include": "alternatives", "budget": 200}
    page, cursors = ask.traverse(**given), list[str]()
    while "cursor" in page:
        assert "alternatives" not in page
        cursors.append(page["cursor"])
        page = ask.traverse(**given, cursor=cursors[-1])
    assert cursors
    assert (names(page)[-1], "alternatives" in page) == ("c", False)
    ask.put(changes=link("a", "c", 0, "uses"))  # all nodes of the new path are before the end of the last page
    assert ask.traverse(**given, cursor=cursors[-1])["nodes"] == []


@pytest.mark.requirement("N5")
@pytest.mark.parametrize("limits", [{"direction": "out"}, {"max_cost": 1}, {"max_depth": 1}, {"edge_types": "see"}])
def test_no_path_within_the_limits_is_reported(chain: Ask, limits: dict[str, Any]) -> None:
    answer = chain.traverse(start="e", to="a", **limits)
    assert (names(answer), answer["unreached"]) == (["e"], "concept://shop/a")


def test_a_path_to_a_missing_node_is_refused_without_a_walk(chain: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traverse, "walk_across", None)
    with pytest.raises(NotFound) as refused:
        chain.traverse(start="a", to="concept:nothing-there")
    assert refused.value.at == "concept://shop/nothing-there"


@pytest.mark.requirement("E5")
@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"max_cost": 0}, "ab"),
        ({"max_cost": None}, "abcde"),
        ({"max_cost": None, "max_depth": 1}, "abc"),
        ({"edge_types": "see"}, "ac"),
        ({"max_nodes": 2}, "ab"),
        ({"direction": "in"}, "a"),
        ({"start": "d", "direction": "in"}, "dcba"),
        ({"start": "c", "direction": "both"}, "cbade"),
        ({"start": ["d", "b"]}, "bdce"),
        ({"types": ["decision"]}, "a"),
    ],
)
def test_cost_depth_types_direction_and_cap_bound_the_walk(chain: Ask, options: dict[str, Any], found: str) -> None:
    answer = chain.traverse(**{"start": "a", **options})
    assert sorted(names(answer)) == sorted(found)
    assert names(answer) == names(chain.traverse(**{"start": "a", **options}))


@pytest.mark.requirement("U2")
def test_against_its_arrow_a_relation_says_so_in_the_path(chain: Ask) -> None:
    answer = chain.traverse(start="b", direction="in", include=["path", "edges"])
    step = {"from": "concept://shop/b", "type": "uses", "direction": "in"}
    assert (answer["nodes"][1]["via"], answer["nodes"][1]["path"]) == (step, [step])
    assert answer["edges"] == [
        {"source": "concept://shop/a", "target": "concept://shop/b", "type": "uses", "weight": 0}
    ]


@pytest.mark.requirement("E5")
def test_whole_paths_are_answered_only_on_request(chain: Ask) -> None:
    start, _, third, _ = chain.traverse(start="a", include=["path"])["nodes"]
    assert (start["path"], "via" in start) == ([], False)
    assert third["path"] == [
        {"from": "concept://shop/a", "type": "uses"},
        {"from": "concept://shop/b", "type": "uses"},
    ]
    assert not any("path" in node for node in chain.traverse(start="a")["nodes"])


LONG = 260


@pytest.fixture
def long_chain(ask: Ask) -> Ask:
    """n000 -> n001 -> … -> n259."""
    ask.put(changes=[upsert(f"n{n:03}", summary="s") for n in range(LONG)])
    ask.put(changes=[link(f"n{n - 1:03}", f"n{n:03}") for n in range(1, LONG)])
    return ask


def pages(ask: Ask, **options: Any) -> list[Any]:
    found = [ask.traverse(**options)]
    while cursor := found[-1].get("cursor"):
        found.append(ask.traverse(**options, cursor=cursor))
    return found


def rebuilt(answers: list[Any]) -> dict[str, list[Any]]:
    """The path of each node, from the predecessors on all pages."""
    paths: dict[str, list[Any]] = {}
    for node in (node for answer in answers for node in answer["nodes"]):
        path: list[Any] = []
        if via := dict(node.get("via", {})):
            steps = [*via.pop("through", []), via]
            path = [*paths[steps[0]["from"]], *steps]
        paths[node["uri"]] = path
    return paths


@pytest.mark.slow
@pytest.mark.requirement("E5")
def test_a_long_chain_names_predecessors_and_later_pages_are_as_full_as_the_first(long_chain: Ask) -> None:
    options = {"start": "n000", "max_cost": None, "max_nodes": 300}
    short, whole = pages(long_chain, **options), pages(long_chain, **options, include="path")
    assert sum(map(len, map(orjson.dumps, short))) < 0.2 * sum(map(len, map(orjson.dumps, whole)))
    assert len({len(answer["nodes"]) for answer in short[1:-1]} | {len(short[0]["nodes"])}) <= 2
    assert rebuilt(short) == {node["uri"]: node["path"] for answer in whole for node in answer["nodes"]}


@pytest.mark.parametrize("limits", [{"types": ["decision"]}, {"max_depth": 3}], ids=str)
def test_a_path_through_omitted_nodes_can_be_rebuilt(own_chain: Ask, limits: dict[str, Any]) -> None:
    """`types` hides intermediate nodes; `max_depth` uses a costlier path with fewer hops than the listed ones."""
    own_chain.put(changes=[link("e", "f"), upsert("f", type="decision"), link("f", "g"), upsert("g", type="decision")])
    answer = own_chain.traverse(start="a", max_cost=None, include="path", **limits)
    assert rebuilt([answer]) == {node["uri"]: node["path"] for node in answer["nodes"]}
    assert any("through" in node.get("via", {}) for node in answer["nodes"])


def test_edges_are_answered_on_request_and_those_among_the_answered_nodes(chain: Ask) -> None:
    assert "edges" not in chain.traverse(start="a")
    found = chain.traverse(start="a", include="edges")["edges"]
    edges = {(e["source"][-1], e["target"][-1], e["type"]) for e in found}
    assert edges == {("a", "b", "uses"), ("b", "c", "uses"), ("c", "d", "uses"), ("a", "c", "see")}


def test_a_cursor_goes_on_where_the_cap_ended_and_repeats_nothing(chain: Ask) -> None:
    options = {"start": "a", "max_cost": None, "max_nodes": 2, "include": "edges"}
    first = chain.traverse(**options)
    second = chain.traverse(**options, cursor=first["cursor"])
    third = chain.traverse(**options, cursor=second["cursor"])
    assert (names(first), names(second), names(third)) == (["a", "b"], ["c", "d"], ["e"])
    assert "cursor" not in third
    assert ("b", "c") in {(e["source"][-1], e["target"][-1]) for e in second["edges"]}


@pytest.mark.slow
def test_the_budget_cuts_from_the_far_end_and_says_so(ask: Ask) -> None:
    ask.put(changes=[upsert("hub", summary="h"), *(upsert(f"n{n:03}", summary="s" * 90) for n in range(150))])
    ask.put(changes=[link("hub", f"n{n:03}", n / 200) for n in range(150)])
    seen: list[str] = []
    answer = ask.traverse(start="hub", max_nodes=200, budget=2_000)
    assert len(orjson.dumps(answer)) <= 8_000
    cut = next(cut for cut in answer["cut"] if cut["limit"] == "budget")
    assert cut["count"] + len(answer["nodes"]) == 151
    while True:
        seen += names(answer)
        if "cursor" not in answer:
            break
        answer = ask.traverse(start="hub", max_nodes=200, budget=2_000, cursor=answer["cursor"])
    assert seen == ["hub", *(f"n{n:03}" for n in range(150))]
    assert len(orjson.dumps(ask.traverse(start="hub", max_nodes=2_000, budget=10**6))) <= HARD_LIMIT


@pytest.mark.requirement("E18")
def test_a_relation_to_a_deleted_node_is_a_broken_link(own_chain: Ask) -> None:
    own_chain.put(changes={"op": "delete", "uri": "b"})
    answer = own_chain.traverse(start="a")
    assert answer["broken_links"] == [
        {"source": "concept://shop/a", "type": "uses", "target": "concept://shop/b", "reason": "missing", "weight": 0}
    ]
    assert own_chain.get(uris="c", include="incoming")["nodes"][0]["incoming"] == [
        {"source": "concept://shop/a", "type": "see", "weight": 1}
    ]


@pytest.mark.requirement("E14")
def test_a_walk_as_of_a_commit_uses_the_graph_of_that_commit(own_chain: Ask) -> None:
    then = own_chain.history()["commits"][0]["commit"]
    own_chain.put(changes=[{"op": "delete", "uri": "b"}, upsert("f", summary="f"), link("a", "f", 0)])
    assert names(own_chain.traverse(start="a", as_of=then)) == ["a", "b", "c", "d"]
    assert names(own_chain.traverse(start="a")) == ["a", "f", "c"]


@pytest.mark.requirement("E20")
def test_the_code_tree_is_in_the_same_walk(ask: Ask) -> None:
    ask.put(changes=upsert("auth", relations={"type": "implemented_in", "target": "src/auth", "weight": 0}))
    answer = ask.traverse(start="auth", max_cost=1)
    assert names(answer) == ["auth", "auth", "keys.py", "session.py"]
    assert [node.get("stored", True) for node in answer["nodes"]] == [True, False, False, False]
    up = ask.traverse(start="src/auth/keys.py", direction="in", max_cost=None)
    assert "concept://shop/auth" in [node["uri"] for node in up["nodes"]]


def test_a_missing_start_is_refused_or_named(chain: Ask) -> None:
    with pytest.raises(NotFound):
        chain.traverse(start="nowhere")
    answer = chain.traverse(start=["a", "nowhere"])
    assert answer["missing"] == ["concept://shop/nowhere"]
    assert names(answer)[0] == "a"


@pytest.mark.requirement("E6")
def test_answered_nodes_enter_the_working_set_of_their_conversation_only(chain: Ask) -> None:
    answer = chain.traverse(start="a", context_id="one")
    assert answer["context_id"] == "one"
    chain.get(uris="e", context_id="one")
    _, one = chain.session.daemon.contexts.open("one")
    _, two = chain.session.daemon.contexts.open("two")
    assert [uri[-1] for uri in one.uris] == ["d", "c", "b", "a", "e"]
    assert two.uris == []


@pytest.mark.slow
@pytest.mark.requirement("E6")
@pytest.mark.requirement("E7")
def test_after_100_nodes_the_oldest_leave_and_the_hint_names_them_with_a_ready_put(ask: Ask) -> None:
    ask.put(changes=[*(upsert(f"old{n}", summary="o") for n in range(3)), upsert("hub", summary="h")])
    ask.put(changes=[upsert(f"n{n:03}", summary="s") for n in range(120)])
    ask.put(changes=[link("hub", f"n{n:03}") for n in range(120)])
    first = ask.traverse(start=["old0", "old1", "old2"], context_id="c")["hint"]
    assert "first walk" in first["message"]
    assert "hint" not in ask.traverse(start="old0", context_id="c")
    hint = ask.traverse(start="hub", max_nodes=99, budget=10_000, context_id="c")["hint"]
    assert set(hint["evicted"]) <= {f"concept://shop/old{n}" for n in range(3)}
    assert hint["evicted"]
    assert ask.put(**hint["put"], dry_run=True)["created"]


def set_(ask: Ask, **settings: Any) -> None:
    registry = Path(ask.session.daemon.home.registry)
    lines = [f"  {name}: {value}\n" for name, value in settings.items()]
    registry.write_text("".join(["settings:\n", *lines, registry.read_text().partition("settings:")[0]]))


@pytest.mark.requirement("E6")
def test_a_new_size_of_the_working_set_applies_at_once(own_chain: Ask) -> None:
    own_chain.traverse(start="a", context_id="one")
    set_(own_chain, context_size=2)
    assert own_chain.get(uris="e", context_id="one")["hint"]["evicted"]
    assert [uri[-1] for uri in own_chain.context(question="e", context_id="one")["working_set"]] == ["e", "a"]
    assert own_chain.context(question="e", context_id="two")["working_set"] == []
    assert "working_set" not in own_chain.context(question="e")


def test_a_setting_that_is_read_at_the_start_is_shown_as_not_in_force(ask: Ask) -> None:
    set_(ask, http_port=7_862)
    assert "settings: http_port is 7862 in the file and 0 in force" in ask.status()["degraded"]


def test_a_path_of_the_tree_that_was_never_mentioned_can_be_a_start(ask: Ask, code: Path) -> None:
    assert names(ask.traverse(start=str(code / "src"), max_cost=1))[:1] == ["src"]


@pytest.mark.parametrize(
    ("types", "listed"),
    [
        (["file"], ["session.py", "keys.py"]),
        (["dir"], []),
        (["file", "insight"], ["session.py", "keys.py", "tokens-expire"]),
        (["resource"], ["session.py", "keys.py"]),
    ],
    ids=str,
)
def test_files_and_directories_are_types_too(ask: Ask, types: list[str], listed: list[str]) -> None:
    ask.remember(text="Tokens expire.", about=["src/auth"])
    ask.put(changes=upsert("src/auth/keys.py", tags=["stored"]))
    walked = names(ask.traverse(start="src/auth", types=types, direction="both", max_cost=1))
    assert sorted(walked) == sorted(["auth", *listed, *(["src"] if types == ["dir"] else [])])
    hits = ask.search(query="auth tokens", types=types, lanes="one")["hits"]
    found = [hit["uri"].rsplit("/", 1)[1] for hit in hits]
    assert sorted(set(found) & {*listed, "auth"}) == sorted([*listed, *(["auth"] if types == ["dir"] else [])])


@pytest.mark.parametrize("spelling", ["mentions", "MENTIONS"])
def test_a_filter_on_relation_types_ignores_their_case(ask: Ask, spelling: str) -> None:
    ask.put(
        changes=[
            upsert("ledger", name="General ledger"),
            upsert("note", content="See the General ledger.\n"),
            link("note", "other", 0.2, "mentions"),
            upsert("other"),
        ]
    )
    walked = ask.traverse(start="note", edge_types=spelling, max_cost=None, include="edges")
    assert set(names(walked)) == {"note", "ledger", "other"}
    assert {edge["type"] for edge in walked["edges"]} == {"MENTIONS", "mentions"}
    assert {edge["type"] for edge in ask.edges(uri="note", edge_types=spelling)["edges"]} == {"MENTIONS", "mentions"}


@pytest.mark.slow
def test_the_type_concept_leaves_out_directories(ask: Ask) -> None:
    ask.put(changes=[upsert("a"), link("a", "dir://shop/src/auth", 0.1), link("a", "b", 0.1), upsert("b")])
    assert names(ask.traverse(start="a", types="concept")) == ["a", "b"]
    assert names(ask.traverse(start="a", types=["concept", "dir"])) == ["a", "b", "auth"]
    assert "session.py" in names(ask.traverse(start="src/auth", types="file", direction="both"))
