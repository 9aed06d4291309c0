"""Setup, status, the code tree, and operations of this machine's own command line."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kgd.code_history.history import CodeHistory
from kgd.daemon.daemon import Daemon
from kgd.errors import Invalid, InvariantViolation, Unavailable
from kgd.git.layout import locate
from kgd.model.access import Principal, Scope
from kgd.tools import call
from kgd.tools.session import Session
from kgd.tools.workspaces.status import STATUS
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import FILES, Ask, git, make_code, upsert
from tests.waiting import until


@pytest.mark.slow
@pytest.mark.requirement("B1")
def test_status_shows_daemon_workspace_stages_and_counts(ask: Ask) -> None:
    ask.put(changes=upsert("a", relations={"type": "t", "target": "concept://shop/none"}))
    answer = ask.status()
    assert answer["daemon"]["workspaces"] == ["shop"]
    assert answer["daemon"]["pid"] > 0
    assert answer["workspace"]["id"] == "shop"
    assert {"commit", "publish", "index"} <= {stage["name"] for stage in answer["stages"]}
    assert answer["counts"]["nodes"] == 1
    assert answer["counts"]["broken_links"] == 1
    assert answer["counts"]["files"] == len(FILES)
    assert answer["counts"]["binary"] == 1
    assert answer["conflicts"] == 0
    until(lambda: ask.status()["health"] == "ok")


def test_up_creates_the_work_tree_that_an_earlier_call_could_not_create(
    daemon: Daemon, session: Session, code: Path, ws: Workspace
) -> None:
    index = ws.layout.git_dir / "index"
    daemon.close()
    shutil.rmtree(code / ".kgd")
    index.unlink()
    again = Daemon(daemon.home, since="2026-11-21T12:00:00Z", locate=locate, open_workspace=Workspace.open)
    call(replace(session, daemon=again), "up")
    assert (code / ".kgd/kgd.yaml").exists()
    assert (code / ".kgd/.git").exists()
    again.close()


def test_up_completes_what_git_ignores_after_an_earlier_call_could_not(daemon: Daemon, code: Path) -> None:
    exclude = code / ".git/info/exclude"
    exclude.unlink()
    exclude.mkdir()
    session = Session(daemon, cwd=code)
    with pytest.raises(Unavailable):
        call(session, "up")
    exclude.rmdir()
    call(session, "up")
    assert git(code, "status", "--porcelain") == ""


def test_status_outside_of_any_workspace_shows_the_daemon(daemon: object, tmp_path: Path) -> None:
    answer = call(Session(daemon, cwd=tmp_path), "status")  # type: ignore[arg-type]
    assert "workspace" not in answer
    assert "kgd up" in answer["next"]


def test_status_of_a_token_reads_nothing_that_it_does_not_show(
    ask: Ask, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask.put(changes=[upsert("a"), upsert("b")])
    monkeypatch.delattr(Workspace, "broken_links")
    monkeypatch.delattr(CodeHistory, "findings")
    holder = Principal("tok1", "Bob", "person", (Scope.of("shop", ["read"], ["/**"]),))
    answer = STATUS.call(replace(session, principal=holder), {})
    assert (answer["counts"], answer["proposals"], answer["stages"]) == ({"nodes": 2}, 0, [])
    with pytest.raises(AttributeError):
        ask.status()


def test_up_again_changes_nothing_and_leaves_the_code_repository_alone(session: Session, code: Path) -> None:
    before = git(code, "status", "--porcelain"), git(code, "log", "--all", "--format=%H")
    again = call(session, "up")
    assert again["created"] is False
    assert again["published"] == []
    assert (git(code, "status", "--porcelain"), git(code, "log", "--all", "--format=%H")) == before == ("", before[1])


def test_up_with_the_id_of_another_repository_offers_two_ways_out(session: Session, tmp_path: Path) -> None:
    twin = replace(session, cwd=make_code(tmp_path / "elsewhere" / "shop"), found=None)
    with pytest.raises(InvariantViolation) as caught:
        call(twin, "up")
    assert "--id NEW" in caught.value.next
    assert "--replace" in caught.value.next
    assert call(twin, "up", {"id": "shop-two"})["workspace"] == "shop-two"


def test_up_standalone_makes_a_separate_repository(session: Session, tmp_path: Path) -> None:
    alone = replace(session, cwd=tmp_path, found=None)
    answer = call(alone, "up", {"directory": str(tmp_path / "notes"), "standalone": True})
    assert (answer["workspace"], answer["path"]) == ("notes", str(tmp_path / "notes"))
    written = call(alone, "put", {"workspace": "notes", "changes": upsert("plan", summary="any domain")})
    assert written["created"] == ["concept://notes/plan"]


def test_a_bare_workspace_has_no_files_and_is_found_and_served_in_its_folder(session: Session, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    alone = replace(session, cwd=tmp_path, found=None)
    made, again = (call(alone, "up", {"directory": str(folder), "bare": True}) for _ in range(2))
    assert (made["created"], again["created"], made["path"]) == (True, False, str(folder))
    assert call(alone, "put", {"workspace": "notes", "changes": upsert("plan", summary="x")})["created"]
    assert [one.name for one in folder.iterdir()] == [".git"]
    assert git(folder, "config", "core.bare") == "true\n"


@pytest.mark.requirement("E21")
def test_any_domain_and_any_type_can_be_written(ask: Ask) -> None:
    answer = ask.put(
        changes=[
            {"op": "upsert", "type": "meeting", "name": "Kick-off", "data": {"attendees": ["ann", "bob"]}},
            {"op": "upsert", "type": "hypothesis", "name": "Cold water helps", "tags": ["research"]},
        ]
    )
    assert len(answer["created"]) == 2


def test_uninstall_leaves_the_knowledge_and_says_where(ask: Ask, code: Path) -> None:
    ask.put(changes=upsert("a", summary="kept"))
    answer = ask.uninstall()
    (kept,) = answer["kept"]
    assert Path(kept).is_dir()
    assert ask.status()["daemon"]["workspaces"] == []
    assert git(code, "status", "--porcelain") == ""
    assert ask.up(dry_run=True)["restored"]
    again = ask.up()
    assert (again["restored"], again["created"]) == (True, False)
    assert ask.get(uris="concept://shop/a")["nodes"][0]["summary"] == "kept"


def test_ingest_counts_the_code_tree_and_stores_nothing(ask: Ask) -> None:
    before = ask.history()["commits"]
    answer = ask.ingest()
    assert answer["counts"]["files"] == len(FILES)
    assert answer["counts"]["directories"] == 4
    assert ask.history()["commits"] == before
    with pytest.raises(Invalid, match="fetches nothing"):
        ask.ingest(source="https://example.org/paper")
    served = ask.ingest(source="README.md")
    assert (served["kind"], served["nodes"]) == ("tree", ["file://shop/README.md"])
    assert "nothing is stored" in served["next"]
    assert ask.history()["commits"] == before


def test_bootstrap_with_store_writes_the_tree_once(ask: Ask) -> None:
    answer = ask.bootstrap(store=True)
    assert answer["commits"]
    assert ask.get(uris="src/checkout.py")["nodes"][0]["version"] == 1
    assert ask.bootstrap(store=True)["commits"] == []


@pytest.mark.slow
def test_the_checks_find_nothing_wrong_with_a_sound_workspace(ask: Ask) -> None:
    ask.put(changes=upsert("a", summary="s"))
    assert ask.fsck() == {"ok": True, "workspace": "shop", "nodes": 1, "problems": []}
    until(lambda: ask.doctor()["ok"])
    assert ask.doctor(fix=True)["ok"]
    assert ask.reindex()["nodes"] == 1
    assert ask.get(uris="a")["nodes"][0]["version"] == 1
    assert [one["id"] for one in ask.workspaces()["workspaces"]] == ["shop"]
