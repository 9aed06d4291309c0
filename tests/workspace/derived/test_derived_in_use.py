"""Derived data may be damaged or deleted while it is in use: it is rebuilt by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kgd.errors import Damaged, Unavailable
from kgd.index.database import Database, IndexDamaged
from kgd.index.text import Doc, TextIndex
from kgd.model.uri import Uri
from kgd.workspace.answers import Stage
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, ask, code, daemon, session, upsert, ws

__all__ = ["ask", "code", "daemon", "session", "ws"]


def emptied(path: Path) -> None:
    with open(path, "r+b") as file:
        file.truncate(0)


def halved(path: Path) -> None:
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size // 2)


@pytest.mark.parametrize("damage", [emptied, halved, lambda path: path.write_bytes(b"no index" * 900)])
def test_an_index_damaged_during_searches_is_rebuilt(ask: Ask, ws: Workspace, damage: Callable[[Path], object]) -> None:
    ask.put(changes=[upsert(f"n{n}", content=f"lease number{n}\n") for n in range(50)])
    ask.search(query="number7")
    damage(ws.derived_dir / "index.sqlite")
    found = []
    for n in range(6):  # the reader that meets the damage gets an error
        try:
            ask.put(changes=[upsert(f"later{n}", content=f"later{n} number7\n")])
            ask.search(query="lease")
            found = [hit["uri"] for hit in ask.search(query="number7")["hits"]]
        except Damaged:
            found = []
    assert "concept://shop/n7" in found


def test_an_index_that_cannot_be_rebuilt_does_not_suggest_repairing_git(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may damage the new file at the same moment; git is sound."""

    def spoiled(self: Database) -> None:
        raise IndexDamaged("the index is damaged", at=str(self.path))

    ws.close()
    index = ws.derived_dir / "index.sqlite"
    emptied(index)
    with monkeypatch.context() as patch:
        patch.setattr(Database, "recreate", spoiled)
        with pytest.raises(Unavailable) as refused:
            Workspace.open(ws.layout)
    assert refused.value.next == "Try again. No knowledge is lost: kgd rebuilds this data from git."
    Workspace.open(ws.layout).close()


def test_search_works_without_the_mentions(ask: Ask, ws: Workspace, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (ws.derived_dir / "mentions.sqlite").symlink_to(tmp_path / "elsewhere")
    ask.put(changes=[upsert("lease", content="a lease\n")])
    assert [hit["uri"] for hit in ask.search(query="lease")["hits"]] == ["concept://shop/lease"]


def test_a_folder_at_the_path_of_a_derived_file_is_moved_aside(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    path.mkdir()
    (path / "mine").write_text("kept")
    database = Database(path)
    index = TextIndex(database)
    index.apply([Doc(Uri("concept://w/a"), "concept", "lease")])
    assert [hit.uri for hit in index.search("lease")] == ["concept://w/a"]
    assert [one.read_text() for one in tmp_path.glob("index.sqlite.*/mine")] == ["kept"]
    database.close()


def test_doctor_reports_every_failing_stage(ask: Ask, ws: Workspace) -> None:
    ws.on_health(lambda: Stage("mentions", "degraded", None, "names cannot be looked for"))
    (told,) = [one for one in ask.doctor()["checks"] if one["name"] == "shop mentions"]
    assert told["state"] == "warning"
    assert told["next"]
