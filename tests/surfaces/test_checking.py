"""`doctor`: lists each stage with its remedy, makes safe repairs, and confirms intended mass deletions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kgd.cli.output import show
from kgd.config.entries import Entry
from kgd.errors import NotFound
from tests.surfaces.conftest import Ask, git, new_daemon, upsert
from tests.surfaces.test_conflicts import disagree
from tests.waiting import until

STAGES = {f"shop {name}" for name in ("commit", "publish", "integrate", "index", "embedding", "upkeep", "code")}


def named(answer: Any) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in answer["checks"]}


@pytest.mark.slow
def test_every_stage_is_listed_as_healthy(ask: Ask) -> None:
    ask.put(changes=upsert("a", summary="s"))
    until(lambda: all(check["state"] in ("ok", "off") for check in ask.doctor()["checks"]))
    assert {"registry", "pages", "shop", *STAGES} == set(named(ask.doctor()))


def test_a_registered_place_without_a_workspace_and_a_hub_that_is_down_are_named(ask: Ask, tmp_path: Path) -> None:
    registry = ask.session.daemon.registry
    registry.register(Entry("gone", str(tmp_path / "gone")))
    registry.register(Entry("infra", hub="http://127.0.0.1:9"))
    answer = ask.doctor()
    assert not answer["ok"]
    assert named(answer)["gone"]["state"] == "error"
    assert "remove its entry from workspaces.yaml" in named(answer)["gone"]["next"]
    assert named(answer)["hub http://127.0.0.1:9"]["state"] == "warning"


def test_a_workspace_that_cannot_be_opened_is_named_with_the_reason(
    ask: Ask, ws: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = ws.layout
    ask.session.daemon.close()
    (layout.git_dir / "objects/info/alternates").write_text("/elsewhere\n")
    ask = Ask(replace(ask.session, daemon=new_daemon(tmp_path)))
    answer = ask.status()
    assert answer["health"] == "blocked"
    assert answer["unavailable"] == f"the repository borrows objects from another repository: {layout.git_dir}"
    assert answer["next"].startswith("Run `git repack -ad`")
    show("printing_running.status", answer, {})
    assert "this directory cannot be opened: the repository borrows objects" in capsys.readouterr().out
    check = named(ask.doctor())["shop"]
    assert (check["state"], check["next"]) == ("error", answer["next"])
    assert "borrows objects" in check["detail"]
    ask.session.daemon.close()


def test_the_work_that_status_lists_is_listed_and_is_no_defect(ask: Ask) -> None:
    ask.put(changes=upsert("a", summary="s", relations=[{"type": "about", "target": "concept:missing"}]))
    disagree(ask, "keys", "summary")
    answer = ask.doctor()
    assert answer["ok"]
    work = [(one["detail"], one["next"]) for one in answer["checks"] if one["state"] == "to do"]
    assert work == [("1 broken link", "status lists them."), ("1 open conflict", "conflicts shows the sides of each.")]
    assert [(one["what"], one["next"]) for one in ask.status()["to_do"]] == work[1:]


@pytest.mark.slow
def test_a_blocked_publication_is_named_with_its_remedy(ask: Ask, ws: Any) -> None:
    ask.put(changes=upsert("a", summary="s"))
    git(ws.layout.work_tree, "switch", "-q", "--detach")
    ask.put(changes=upsert("b", summary="s"))
    until(lambda: named(ask.doctor())["shop publish"]["state"] == "error")
    answer = ask.doctor()
    assert not answer["ok"]
    assert f"`git -C {ws.layout.work_tree} switch kgd` resumes" in named(answer)["shop publish"]["detail"]
    git(ws.layout.work_tree, "switch", "-q", "kgd")
    assert ask.doctor(fix=True)["ok"]


@pytest.mark.slow
def test_an_unreadable_file_is_named(ask: Ask, ws: Any) -> None:
    ask.put(changes=upsert("a", summary="s"))
    path = ws.layout.work_tree / "nodes/concept/a.yaml"
    until(path.exists)
    path.write_text("summary: [never closed\n")
    ws.hint(None)
    until(lambda: "shop nodes/concept/a.yaml:2" in named(ask.doctor()))
    check = named(ask.doctor())["shop nodes/concept/a.yaml:2"]
    assert "a bracket [ is never closed" in check["detail"]
    assert check["next"].startswith("Fix that file")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "statement"),
    [
        ("index", "DELETE FROM docs"),
        ("versions", "UPDATE versions SET count = 7"),
        ("versions", "DELETE FROM versions"),
    ],
    ids=["index", "wrong versions", "no versions"],
)
def test_doctor_repairs_the_problems_that_it_reports_as_repairable(
    ask: Ask, ws: Any, file: str, statement: str
) -> None:
    ask.put(changes=upsert("a", summary="s"))
    until(lambda: ask.doctor()["ok"])
    with sqlite3.connect(ws.layout.derived_dir / f"{file}.sqlite") as connection:
        connection.execute(statement)
    connection.close()
    wrong = [check for check in ask.doctor()["checks"] if check.get("next") == "Run `kgd doctor --fix`."]
    assert wrong
    mended = named(ask.doctor(fix=True))
    assert [mended[check["name"]]["state"] for check in wrong] == ["fixed"] * len(wrong)
    assert all(check["state"] != "fixed" for check in ask.doctor()["checks"])
    assert ask.doctor()["ok"]


@pytest.mark.slow
def test_a_graph_that_differs_from_the_tip_is_reloaded(ask: Ask, ws: Any) -> None:
    ask.put(changes=[upsert("a", summary="s"), upsert("b", summary="s")])
    ws.graph.remove("concept://shop/a")
    assert named(ask.doctor())["shop graph"]["next"] == "Run `kgd doctor --fix`."
    assert named(ask.doctor(fix=True))["shop graph"]["state"] == "fixed"
    assert ask.get(uris="a")["nodes"][0]["version"] == 1


@pytest.fixture
def emptied(ask: Ask, ws: Any) -> Callable[[], list[Path]]:
    """Delete the files of a dozen nodes; returns a function for the remaining ones."""
    ask.put(changes=[upsert(f"n{number}", summary="s") for number in range(12)])
    folder = ws.layout.work_tree / "nodes/concept"
    until(lambda: len(list(folder.glob("*.yaml"))) == 12)
    until(lambda: ask.doctor()["ok"])
    for file in folder.glob("*.yaml"):
        file.unlink()
    ws.hint(None)
    until(lambda: named(ask.doctor())["shop integrate"]["state"] == "error")
    return lambda: list(folder.glob("*.yaml"))


@pytest.mark.slow
def test_many_missing_files_are_deleted_only_after_confirmation(ask: Ask, emptied: Callable[[], list[Path]]) -> None:
    assert "`kgd doctor --confirm-deletions` deletes them" in named(ask.doctor())["shop integrate"]["detail"]
    assert ask.status()["counts"]["nodes"] == 12
    answer = ask.doctor(confirm_deletions=True)
    assert named(answer)["shop integrate"]["state"] == "fixed"
    until(lambda: ask.status()["counts"]["nodes"] == 0)
    assert emptied() == []


def test_a_confirmation_names_its_workspace(ask: Ask, tmp_path: Path) -> None:
    ask.session.cwd, ask.session.here = tmp_path, None
    with pytest.raises(NotFound):
        ask.doctor(confirm_deletions=True)
