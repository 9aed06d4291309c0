"""Names of conflicts for settling them: the id, the digest, or the node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kgd.errors import Invalid, NotFound
from kgd.workspace.check import check
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, git, upsert


def disagree(ask: Ask, name: str, field: str) -> None:
    """Make an open conflict over one field: revert a change after another change of the field."""
    second = [ask.put(changes=upsert(name, **{field: value}))["commit"] for value in ("one", "two")][1]
    ask.put(changes=upsert(name, **{field: "three"}))
    ask.revert(commit=second)


@pytest.mark.parametrize(
    "named", ["concept://shop/services/keys", "services/keys", "concept:services/keys", "old/keys"]
)
def test_the_only_conflict_of_a_node_is_settled_by_any_name_of_the_node(ask: Ask, named: str) -> None:
    ask.put(changes=upsert("old/keys", tags=["x"]))
    ask.put(changes={"op": "move", "uri": "old/keys", "to": "services/keys"})
    disagree(ask, "services/keys", "summary")
    ask.resolve(resolutions={"id": named, "take": "base"})
    assert ask.conflicts()["total"] == 0


@pytest.mark.parametrize("side", ["a", "b"])
def test_a_resolution_is_a_change_of_its_node_also_if_the_shown_side_stays(ask: Ask, side: str) -> None:
    disagree(ask, "keys", "summary")
    (before,) = ask.get(uris="keys")["nodes"]
    done = ask.resolve(resolutions={"id": "keys", "take": side}, message="settled")
    (node,) = ask.get(uris="keys")["nodes"]
    assert node["version"] == before["version"] + 1 == done["nodes"][0]["version"]
    assert node["origin"]["commit"] == done["commit"]
    (newest, *older) = ask.history(uri="keys")["commits"]
    assert (newest["message"], newest["nodes"]) == ("settled", [node["uri"]])
    assert len(older) == before["version"]
    ws = ask.session.daemon.workspace("shop")
    assert not [one for one in check(ws) if "versions" in str(one)], "as counted from history"


def test_the_answer_has_the_values_also_if_no_node_changes(ask: Ask) -> None:
    disagree(ask, "keys", "summary")
    (conflict,) = ask.conflicts()["conflicts"]
    field = conflict["fields"]["summary"]
    (value,) = [side["value"] for side in field["sides"] if side["side"] == field["shown"]]
    done = ask.resolve(resolutions={"id": "keys", "take": field["shown"]})
    assert [one["uri"] for one in done["nodes"]] == ["concept://shop/keys"]
    assert done["settled"] == [{"id": conflict["id"], "uri": "concept://shop/keys", "fields": {"summary": value}}]


@pytest.mark.parametrize("wrong", [{"take": "accept"}, {"take": "reject"}, {"take": "z"}, {"take": ""}, {}])
def test_a_refusal_names_the_sides_of_the_conflict(ask: Ask, wrong: dict[str, str]) -> None:
    disagree(ask, "keys", "summary")
    with pytest.raises(Invalid) as caught:
        ask.resolve(resolutions={"id": "keys", **wrong})
    assert str(caught.value.next).startswith("Take a, b or base")


def test_no_side_is_shown_after_a_later_write(ask: Ask) -> None:
    disagree(ask, "keys", "summary")
    (conflict,) = ask.conflicts()["conflicts"]
    field = conflict["fields"]["summary"]
    (shown,) = [side["value"] for side in field["sides"] if side["side"] == field["shown"]]
    assert ask.get(uris="keys")["nodes"][0]["summary"] == shown
    ask.put(changes=upsert("keys", summary="four"))
    assert ask.conflicts()["conflicts"][0]["fields"]["summary"]["shown"] == ""
    (whole,) = ask.conflicts(id=conflict["id"])["conflicts"]
    assert (whole["fields"]["summary"]["shown"], whole["fields"]["summary"]["now"]) == ("", "four")


def test_several_conflicts_of_a_node_are_listed_by_id(ask: Ask) -> None:
    for field in ("summary", "name"):
        disagree(ask, "keys", field)
    with pytest.raises(Invalid) as caught:
        ask.resolve(resolutions={"id": "keys", "take": "a"})
    digests = caught.value.next.rpartition(": ")[2].strip(".").split(", ")
    assert sorted(digests) == sorted(one["id"].rpartition("#")[2] for one in ask.conflicts()["conflicts"])
    ask.resolve(resolutions=[{"id": digest, "take": "a"} for digest in digests])
    assert ask.conflicts()["total"] == 0


def test_a_dry_run_does_not_mention_the_conflict_that_it_would_settle(ask: Ask) -> None:
    disagree(ask, "keys", "summary")
    planned = ask.resolve(resolutions={"id": "keys", "take": "base"}, dry_run=True)
    assert planned["warnings"] == []
    assert ask.conflicts()["total"] == 1


def test_a_dry_run_shows_the_value_that_it_would_choose(ask: Ask) -> None:
    disagree(ask, "keys", "summary")
    (conflict,) = ask.conflicts()["conflicts"]
    for letter, side in zip("ab", conflict["fields"]["summary"]["sides"], strict=True):
        planned = ask.resolve(resolutions={"id": "keys", "take": letter}, dry_run=True)
        assert [one["fields"] for one in planned["settled"]] == [{"summary": side["value"]}]


def test_a_late_decision_is_refused_with_the_earlier_settlement(ask: Ask) -> None:
    disagree(ask, "keys", "summary")
    (conflict,) = ask.conflicts()["conflicts"]
    with pytest.raises(NotFound) as never:
        ask.resolve(resolutions={"id": conflict["id"][:-1] + "0", "take": "a"})
    assert "settled" not in never.value.message
    commit = ask.resolve(resolutions={"id": "keys", "take": "base"}, message="m")["commit"]
    for named in (conflict["id"], "keys"):
        with pytest.raises(NotFound, match="no longer open") as refused:
            ask.resolve(resolutions={"id": named, "take": "a"})
        assert commit[:10] in refused.value.message
    with pytest.raises(NotFound, match="no longer open"):
        ask.resolve_conflicts(resolutions=[{"id": "keys", "take": "a"}])
    assert ask.resolve_conflicts(resolutions=[{"id": conflict["id"], "take": "a"}])["resolved"][0]["commit"] == commit


@pytest.mark.parametrize("named", ["nobody", "concept://shop/nobody", "0123456789abcdef"])
def test_a_node_without_a_conflict_is_not_found(ask: Ask, named: str) -> None:
    with pytest.raises(NotFound):
        ask.resolve(resolutions={"id": named, "take": "a"})


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": 5},
        {"tags": "x"},
        {"data": [1]},
        {"source": "x"},
        {"aliases": ["x y"]},
        {"relations": 3},
        {"relations": [{"type": "x", "target": "x y"}]},
    ],
    ids=lambda one: str(*one),
)
def test_a_whole_node_of_wrong_values_settles_nothing(ask: Ask, wrong: dict[str, object]) -> None:
    made = ask.put(changes=upsert("a", summary="one"))["commit"]
    ask.put(changes=upsert("a", summary="two"))
    ask.revert(commit=made)
    (conflict,) = ask.conflicts()["conflicts"]
    assert list(conflict["fields"]) == ["node"]
    with pytest.raises(Invalid):
        ask.resolve(resolutions={"id": conflict["id"], "fields": {"node": {"uri": "concept://shop/a", **wrong}}})
    assert ask.conflicts()["total"] == 1


def test_a_hole_in_the_history_of_one_conflict_leaves_the_others_their_authors(
    ask: Ask, ws: Workspace, tmp_path: Path
) -> None:
    git_dir = ws.layout.git_dir
    disagree(ask, "concept:whole", "summary")
    disagree(ask, "atom:first", "summary")
    hole = git(git_dir, "rev-parse", f"{ws.tip}:conflicts/atom").strip()
    disagree(ask, "atom:second", "summary")
    packs = [Path(shutil.move(one, tmp_path)) for one in (git_dir / "objects/pack").glob("*.pack")]
    for pack in packs:
        subprocess.run(["git", "-C", git_dir, "unpack-objects", "-q"], input=pack.read_bytes(), check=True)
    (git_dir / "objects" / hole[:2] / hole[2:]).unlink()
    named = {
        one["uri"]: ["author" in side for field in one["fields"].values() for side in field["sides"]]
        for one in ask.conflicts()["conflicts"]
    }
    assert named["concept://shop/whole"] == [True, True]
    assert named["atom://shop/first"] == [False, False]


@pytest.mark.slow
@pytest.mark.parametrize("side", ["a", "b"])
def test_an_undone_resolution_warns_of_the_conflict_whichever_side_it_took(ask: Ask, side: str) -> None:
    disagree(ask, "keys", "summary")
    ask.resolve(resolutions={"id": "keys", "take": side})
    advice = "conflicts shows its sides, resolve_conflicts resolves it"
    for answer in (
        ask.undo(dry_run=True),
        ask.revert(commit="HEAD", dry_run=True),
        ask.put(changes={"op": "revert", "commit": "HEAD"}, dry_run=True),
    ):
        assert answer["warnings"] == [f"concept://shop/keys would have an open conflict: {advice}"]
        assert answer["reverted"]["commit"] == ask.history(limit=1)["commits"][0]["commit"]
    assert ask.undo()["warnings"] == [f"concept://shop/keys has an open conflict: {advice}"]
