"""The whole workspace in groups: by namespace, type, area or community, for each caller with what they may read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kgd.graph import stored_graph
from kgd.graph.live_graph import LiveGraph
from kgd.model.access import Principal, Scope, Verb
from kgd.model.uri import Uri
from kgd.tools import call
from kgd.tools.read import graph_view, grouping
from kgd.tools.read.graph_view import GRAPH_VIEW
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing import settling
from tests.surfaces.conftest import Ask, upsert
from tests.surfaces.test_conflicts import disagree
from tests.waiting import until

PARTS = ("billing", "auth")
PER_PART = 6


@pytest.fixture
def known(session: Session) -> Session:
    """Two namespaces with six nodes each; all nodes of one are related, and one relation leads to the other."""
    changes = [
        upsert(
            f"{part}/n{n}", name=f"{part} {n}", relations=[{"type": "uses", "target": f"{part}/n{m}"} for m in range(n)]
        )
        for part in PARTS
        for n in range(PER_PART)
    ]
    call(session, "put", {"changes": [*changes, upsert("alone", type="note")]})
    bridge = {"op": "relate", "source": "billing/n5", "type": "needs", "target": "auth/n0", "weight": 1}
    call(session, "put", {"changes": [bridge]})
    return session


def grouped(session: Session, by: str, *opened: str) -> Mapping[str, Any]:
    return call(session, "graph_view", {"workspace": "shop", "group": by, "opened": list(opened)})


def counts(answer: Mapping[str, Any]) -> dict[str, int]:
    return {group["name"]: group["count"] for group in answer["groups"]}


def test_nodes_are_grouped_by_namespace_with_the_relations_between_groups(known: Session) -> None:
    answer = grouped(known, "namespace")
    assert counts(answer) == {"auth": 6, "billing": 6, "No namespace": 1}
    assert answer["links"] == [{"source": "auth", "target": "billing", "count": 1}]
    assert (answer["nodes_in_all"], answer["is_sample"]) == (13, False)
    assert "billing 6" in answer["drawing"]


def test_the_automatic_grouping_is_the_first_with_two_groups(session: Session) -> None:
    call(session, "put", {"changes": [upsert("alone", type="note"), upsert("apart", type="rule")]})
    answer = grouped(session, "auto")
    assert (answer["grouping"], counts(answer)) == ("type", {"note": 1, "rule": 1})
    call(session, "put", {"changes": [upsert("billing/n1")]})
    assert grouped(session, "auto")["grouping"] == "namespace"


def test_the_automatic_grouping_shows_a_structure(known: Session) -> None:
    """By namespace, one group would have nearly all nodes."""
    many = [upsert(f"auth/m{n}", type="rule" if n % 2 else "note") for n in range(60)]
    call(known, "put", {"changes": many})
    assert grouped(known, "auto")["grouping"] == "type"


@pytest.mark.slow
def test_the_automatic_grouping_is_by_area_if_there_are_areas(known: Session, areas: tuple[str, str]) -> None:
    assert grouped(known, "auto")["grouping"] == "area"


@pytest.mark.slow
def test_the_automatic_grouping_of_one_node_is_by_namespace(session: Session) -> None:
    call(session, "put", {"changes": [upsert("alone", type="note")]})
    assert (grouped(session, "auto")["grouping"], counts(grouped(session, "auto"))) == (
        "namespace",
        {"No namespace": 1},
    )


def test_nodes_are_grouped_by_type_and_by_area(known: Session) -> None:
    assert counts(grouped(known, "type")) == {"concept": 12, "note": 1}
    area = {"operation": "create", "knowledge": "-", "createdByTaskId": "https://example.org/1", "workspace": "shop"}
    molecule = call(known, "manage_graph", {**area, "entityType": "molecule", "name": "Money"})["data"]["molecule"][
        "id"
    ]
    atom = {**area, "entityType": "atom", "name": "Invoices", "paths": ["src/**"], "moleculeId": molecule}
    assert call(known, "manage_graph", atom)["success"]
    call(known, "put", {"changes": upsert("billing/n1", relations={"type": "in", "target": "atom:Invoices"})})
    answer = grouped(known, "area")
    assert counts(answer) == {"Invoices": 1, "Outside areas": 13, "Money": 1}  # and the task that the area names
    assert next(group for group in answer["groups"] if group["name"] == "Invoices")["inside"] == molecule


@pytest.fixture
def areas(known: Session, code: Path) -> tuple[str, str]:
    """The areas of `src/billing` and `src/auth` in a group, with two nodes of each and a node about a file of `auth`.

    Returns:
        The URIs of the group and of the area of `auth`.
    """
    for part in PARTS:
        folder = code / "src" / part
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "service.py").write_text(f'"""{part}."""\n')
    (code / "src/billing/service.py").write_text("from src.auth import service\n")
    area = {"operation": "create", "knowledge": "-", "createdByTaskId": "https://example.org/1", "workspace": "shop"}
    molecule = call(known, "manage_graph", {**area, "entityType": "molecule", "name": "Money"})["data"]["molecule"][
        "id"
    ]
    atoms = {}
    for part in PARTS:
        atom = {**area, "entityType": "atom", "name": part, "paths": [f"src/{part}/**"], "moleculeId": molecule}
        atoms[part] = call(known, "manage_graph", atom)["data"]["atom"]["id"]
        about = [{"type": "about", "target": atoms[part]}]
        call(known, "put", {"changes": [upsert(f"{part}/n{n}", relations=about) for n in (1, 2)]})
    call(
        known,
        "put",
        {"changes": upsert("alone", relations={"type": "about", "target": "file://shop/src/auth/service.py"})},
    )
    return str(molecule), str(atoms["auth"])


OF_AUTH = {"auth 1", "auth 2", "alone"}
"""The nodes of the area of `auth`, without its file, which is stored if the code tree was read too late."""


@pytest.mark.slow
def test_a_node_about_a_file_belongs_to_the_area_of_the_file(known: Session, areas: tuple[str, str]) -> None:
    answer = grouped(known, "area", areas[1])
    (auth,) = [group for group in answer["groups"] if group["id"] == areas[1]]
    assert {one["name"] for one in auth["members"]} - {"service.py"} == OF_AUTH
    assert auth["types"].items() >= {"concept": 2, "note": 1}.items()


def members(session: Session, area: str) -> set[str]:
    """The names of the nodes of an area, without its file."""
    (opened,) = [group for group in grouped(session, "area", area)["groups"] if group["id"] == area]
    return {one["name"] for one in opened["members"]} - {"service.py"}


@pytest.mark.slow
def test_a_node_that_cites_a_file_or_is_about_a_folder_belongs_to_its_area(
    known: Session, areas: tuple[str, str]
) -> None:
    folder = {"type": "about", "target": "dir://shop/src/auth"}
    cites = {"cites": ["src/auth/service.py"]}
    call(known, "put", {"changes": [upsert("folder", relations=folder), upsert("citing", data=cites)]})
    until(lambda: members(known, areas[1]) == OF_AUTH | {"folder", "citing"})


@pytest.mark.slow
def test_a_task_belongs_to_the_area_of_its_context_files(known: Session, areas: tuple[str, str]) -> None:
    task = {"name": "Mend the session", "files": ["README.md", "src/auth/service.py"], "workspace": "shop"}
    call(known, "add_task", task)
    assert members(known, areas[1]) == OF_AUTH | {"Mend the session"}


@pytest.mark.slow
def test_a_node_about_a_definition_or_about_a_node_of_an_area_belongs_to_it(
    known: Session, areas: tuple[str, str]
) -> None:
    subjects = {"note": "auth/n1", "definition": "symbol://shop/src/auth/service.py/sign"}
    changes = [upsert(name, relations={"type": "about", "target": to}) for name, to in subjects.items()]
    call(known, "put", {"changes": [*changes, upsert("user", relations={"type": "uses", "target": "auth/n1"})]})
    assert members(known, areas[1]) == OF_AUTH | {"note", "definition"}


@pytest.mark.slow
def test_a_file_that_was_not_in_the_code_tree_is_a_file_of_its_area(known: Session, areas: tuple[str, str]) -> None:
    about = {"type": "about", "target": "file://shop/src/auth/planned.py"}
    call(known, "put", {"changes": upsert("plan", relations=about)})
    assert members(known, areas[1]) == OF_AUTH | {"plan", "planned.py"}
    assert counts(grouped(known, "type"))["file"] >= 1


@pytest.mark.slow
def test_if_areas_have_too_many_patterns_the_files_with_the_most_nodes_have_an_area(
    known: Session, areas: tuple[str, str], monkeypatch: Any
) -> None:
    monkeypatch.setattr(grouping, "MATCHING_STEPS", 60)
    files = [f"file://shop/src/auth/part{n}.py" for n in range(40)]
    changes = [upsert(f"x{n}", relations={"type": "about", "target": uri}) for n, uri in enumerate(files)]
    also = upsert("also", relations={"type": "about", "target": "file://shop/src/auth/service.py"})
    call(known, "put", {"changes": [*changes, also]})
    placed = members(known, areas[1])
    assert {"alone", "also"} <= placed
    assert len(placed) < 15


@pytest.mark.slow
def test_the_relations_between_areas_include_their_files(known: Session, areas: tuple[str, str]) -> None:
    before = sum(link["count"] for link in grouped(known, "area")["links"])
    target = "file://shop/src/auth/service.py"
    call(known, "put", {"changes": upsert("billing/n1", relations={"type": "about", "target": target})})
    assert sum(link["count"] for link in grouped(known, "area")["links"]) == before + 1
    own = {"type": "about", "target": "file://shop/src/billing/service.py"}
    until(lambda: not call(known, "get", {"uris": [own["target"]], "include": []}).get("missing"))  # or it is stored
    call(known, "put", {"changes": upsert("billing/n2", relations=own)})
    until(lambda: sum(link["count"] for link in grouped(known, "area")["links"]) == before + 2)  # the import is read


def test_the_id_of_a_group_of_areas_closes_it(known: Session, areas: tuple[str, str]) -> None:
    assert counts(grouped(known, "area"))["billing"] == 2
    answer = grouped(known, "area", areas[0])
    assert counts(answer)["Money"] in (5, 6)
    assert not {"billing", "auth"} & counts(answer).keys()
    assert all({link["source"], link["target"]} <= {areas[0], "~outside"} for link in answer["links"])


@pytest.mark.slow
def test_an_area_counts_among_the_marks_of_its_group(known: Session, areas: tuple[str, str]) -> None:
    """An opened group of areas counts only itself, because each of its areas has its own number."""
    money, auth = areas
    for name in (money, auth, "auth/n1"):
        disagree(Ask(known), name, "summary")

    def conflicts(*opened: str) -> dict[str, int]:
        return {one["id"]: one["conflicts"] for one in grouped(known, "area", *opened)["groups"] if "conflicts" in one}

    assert conflicts() == conflicts(auth) == {money: 1, auth: 2}
    assert conflicts(money) == {money: 3}


@pytest.mark.slow
def test_beside_an_opened_group_other_groups_of_areas_are_closed_and_their_ids_open_them(
    known: Session, areas: tuple[str, str]
) -> None:
    area = {"operation": "create", "knowledge": "-", "createdByTaskId": "https://example.org/1", "workspace": "shop"}
    made = call(known, "manage_graph", {**area, "entityType": "molecule", "name": "Papers"})
    papers = made["data"]["molecule"]["id"]
    atom = {**area, "entityType": "atom", "name": "Guides", "paths": ["docs/**"], "moleculeId": papers}
    assert call(known, "manage_graph", atom)["success"]
    everything = {"Money", "auth", "billing", "Papers", "Guides", "Outside areas"}
    assert counts(grouped(known, "area")).keys() == everything
    assert counts(grouped(known, "area", areas[1])).keys() == everything - {"Guides"}
    assert counts(grouped(known, "area", areas[1], papers)).keys() == everything
    assert counts(grouped(known, "area", "~outside")).keys() == everything - {"Guides", "auth", "billing"}


def test_a_community_has_more_relations_inside_and_the_name_of_its_most_related_node(known: Session) -> None:
    answer = grouped(known, "community")
    assert counts(answer) == {"auth 0": 6, "billing 5": 6, "Without relations": 1}
    assert answer == grouped(known, "community")


def test_an_opened_group_has_its_most_related_nodes_and_their_relations(known: Session, monkeypatch: Any) -> None:
    monkeypatch.setattr(graph_view, "MEMBERS", 3)
    billing = next(group for group in grouped(known, "namespace", "billing")["groups"] if group["id"] == "billing")
    assert billing["members"][0]["name"] == "billing 5"
    assert (len(billing["members"]), billing["count"]) == (3, 6)
    answer = grouped(known, "namespace", "billing")
    assert len(answer["edges"]) == 3
    assert answer["drawing"].count('class="dot"') == 3


def test_opened_groups_share_the_number_of_shown_nodes(known: Session, monkeypatch: Any) -> None:
    monkeypatch.setattr(graph_view, "MEMBERS_IN_ALL", 8)
    answer = grouped(known, "namespace", "billing", "auth")
    assert [len(group["members"]) for group in answer["groups"] if group["id"] in PARTS] == [4, 4]


def test_nodes_have_classes_of_trouble_and_age(known: Session) -> None:
    ended = {"data": {"valid": {"until": "2020-01-31"}}}
    call(known, "put", {"changes": [upsert("billing/n5", **ended)]})
    billing, auth = "concept://shop/billing/n5", "concept://shop/auth/n0"
    for colour, ours, other in (("trouble", "expired", "fine"), ("age", "week", "week")):
        asked = {"workspace": "shop", "colour": colour}
        walk = call(known, "graph_view", {**asked, "start": [billing], "max_cost": 1})
        assert (walk["tones"][billing], walk["tones"][auth]) == (ours, other)
        answer = call(known, "graph_view", {**asked, "group": "namespace", "opened": ["billing"]})
        assert answer["tones"][billing] == ours
        tones = next(group["tones"] for group in answer["groups"] if group["id"] == "billing")
        assert tones == ({"expired": 1, "fine": 5} if colour == "trouble" else {"week": 6})


def test_many_groups_become_one(known: Session, monkeypatch: Any) -> None:
    monkeypatch.setattr(graph_view, "SHOWN", 1)
    assert counts(grouped(known, "namespace")) == {"auth": 6, "Smaller groups": 7}


def test_an_opened_group_of_smaller_areas_closes_the_groups_of_areas(
    known: Session, areas: tuple[str, str], monkeypatch: Any
) -> None:
    monkeypatch.setattr(graph_view, "SHOWN", 1)
    assert counts(grouped(known, "area")).keys() == {"auth", "Smaller groups", "Money"}
    assert counts(grouped(known, "area", "~others")).keys() == {"Money", "Smaller groups"}


def test_a_new_node_is_in_the_next_answer(known: Session) -> None:
    grouped(known, "namespace")
    call(known, "put", {"changes": upsert("auth/new")})
    assert counts(grouped(known, "namespace"))["auth"] == 7


def test_a_large_workspace_is_read_as_a_sample_and_says_so(known: Session, monkeypatch: Any) -> None:
    monkeypatch.setattr(grouping, "LOOKED_AT", 5)
    answer = grouped(known, "namespace")
    assert answer["is_sample"]
    assert answer["looked_at"] <= 6 < answer["nodes_in_all"] == 13
    assert 10 <= sum(counts(answer).values()) <= 16


@pytest.mark.parametrize("by", ["namespace", "type", "area", "community"])
def test_callers_learn_nothing_about_nodes_that_they_may_not_read(known: Session, by: str) -> None:
    scope = Scope.of("shop", [Verb.READ], ["/auth/**"])
    known.principal = Principal("tok1", "agent", "agent", (scope,))
    answer = GRAPH_VIEW.call(known, {"workspace": "shop", "group": by, "opened": ["billing", "concept", "~others"]})
    assert "billing" not in str(answer)
    assert (answer["nodes_in_all"], sum(group["count"] for group in answer["groups"])) == (6, 6)


def test_a_caller_gets_the_first_grouping_with_two_readable_groups_and_each_is_made_once(
    known: Session, monkeypatch: Any
) -> None:
    ring = {f"auth/m{n}": [{"type": "uses", "target": f"auth/m{(n + 1) % 3}"}] for n in range(3)}
    call(known, "put", {"changes": [upsert(name, relations=relations) for name, relations in ring.items()]})
    made, divide = list[int](), stored_graph.communities

    def counted(targets: Mapping[Uri, Mapping[Uri, float]]) -> list[list[Uri]]:
        made.append(len(targets))
        return divide(targets)

    monkeypatch.setattr(stored_graph, "communities", counted)
    scope = Scope.of("shop", [Verb.READ], ["/auth/**"])
    known.principal = Principal("tok1", "agent", "agent", (scope,))
    answer = GRAPH_VIEW.call(known, {"workspace": "shop", "group": "auto"})
    assert (answer["grouping"], sorted(counts(answer).values())) == ("community", [3, 6])
    assert made == [9]


def test_hidden_nodes_join_no_communities_and_change_no_order(known: Session) -> None:
    hidden = [{"type": "uses", "target": f"billing/n{n}"} for n in range(PER_PART)]
    call(known, "put", {"changes": [upsert("auth/x", relations=hidden), upsert("auth/y", relations=hidden)]})
    scope = Scope.of("shop", [Verb.READ], ["/auth/**"])
    known.principal = Principal("tok1", "agent", "agent", (scope,))
    answer = GRAPH_VIEW.call(known, {"workspace": "shop", "group": "community"})
    assert counts(answer) == {"auth 0": 6, "Without relations": 2}
    (opened,) = GRAPH_VIEW.call(known, {"workspace": "shop", "group": "namespace", "opened": ["auth"]})["groups"]
    assert [one["name"] for one in opened["members"]][-2:] == ["x", "y"]


def test_an_empty_workspace_says_how_to_begin(session: Session) -> None:
    answer = grouped(session, "namespace")
    assert answer["groups"] == []
    assert "first node" in answer["next"]


def test_a_sample_is_spread_over_the_whole_graph(known: Session) -> None:
    graph: LiveGraph = known.daemon.workspace("shop").graph
    layers = graph.freeze().layers
    assert sorted(layers.sample(100)) == sorted(graph.uris())
    few = layers.sample(6)
    assert {uri.split("/")[3] for uri in few} >= set(PARTS)
    assert all(Uri(uri) in graph for uri in few)


def in_trouble(session: Session, **asked: Any) -> dict[str, str]:
    answer = GRAPH_VIEW.call(session, {"workspace": "shop", "colour": "trouble", **asked})
    return {uri.rpartition("/")[2]: tone for uri, tone in answer["tones"].items()}


OPENED = {"group": "namespace", "opened": ["billing"]}


@pytest.mark.slow
def test_an_answer_about_groups_ages_with_its_nodes(known: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    call(known, "put", {"changes": [upsert("billing/n5", data={"valid": {"until": "2030-06-15T11:59:59Z"}})]})
    noon = 1907755200
    monkeypatch.setattr(Workspace, "now", lambda _: noon - 1)
    assert in_trouble(known, **OPENED)["n5"] == "fine"
    monkeypatch.setattr(Workspace, "now", lambda _: noon)
    assert in_trouble(known, **OPENED)["n5"] == "expired"


def test_no_node_is_fine_while_the_text_index_is_partial(known: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as building:
        building.setattr(Workspace, "is_text_partial", True)
        assert set(in_trouble(known, **OPENED).values()) == {"unknown"}
    assert set(in_trouble(known, **OPENED).values()) == {"fine"}


@pytest.mark.parametrize("reads", [0, 500])
def test_every_conflict_is_shown_without_reading_its_record(
    known: Session, monkeypatch: pytest.MonkeyPatch, reads: int
) -> None:
    monkeypatch.setattr(grouping, "CONFLICTS", reads)
    for name in ("billing/n1", "billing/n2"):
        disagree(Ask(known), name, "summary")
    tones = in_trouble(known, **OPENED)
    assert (tones.pop("n1"), tones.pop("n2"), set(tones.values())) == ("conflict", "conflict", {"fine"})


def test_no_node_is_fine_if_there_are_too_many_conflicts_to_look_at(
    known: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("billing/n1", "billing/n2"):
        disagree(Ask(known), name, "summary")
    monkeypatch.setattr(settling, "SUBJECTS", 1)
    tones = in_trouble(known, **OPENED)
    assert (tones.pop("n1"), set(tones.values())) == ("conflict", {"unknown"})


@pytest.mark.slow
def test_a_restricted_caller_reads_few_records_and_is_not_told_that_a_node_is_fine(
    known: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("auth/n1", "auth/n2", "billing/n1"):
        disagree(Ask(known), name, "summary")
    restricted = only_auth(known)
    asked = {"group": "namespace", "opened": ["auth"]}
    tones = in_trouble(restricted, **asked)
    assert (tones.pop("n1"), tones.pop("n2"), set(tones.values())) == ("conflict", "conflict", {"unknown"})
    monkeypatch.setattr(grouping, "CONFLICTS", 1)
    tones = in_trouble(restricted, **asked)
    assert (tones.pop("n1"), set(tones.values())) == ("conflict", {"unknown"})


def test_a_kept_answer_is_not_shared_with_a_caller_who_may_read_less(known: Session) -> None:
    asked = {"group": "namespace", "opened": ["auth", "billing"]}
    whole, restricted = in_trouble(known, **asked), in_trouble(only_auth(known), **asked)
    assert set(restricted.values()) == {"unknown"}
    assert len(restricted) == PER_PART
    assert in_trouble(known, **asked) == whole
    assert set(whole.values()) == {"fine"}


def only_auth(session: Session) -> Session:
    scope = Scope.of("shop", [Verb.READ], ["/auth/**"])
    return replace(session, principal=Principal("tok1", "agent", "agent", (scope,)))
