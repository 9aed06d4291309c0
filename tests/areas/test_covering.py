"""`coverage`: the files with and without an area, folder by folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from kgd.errors import Forbidden, Invalid, NotFound
from kgd.model.access import Principal, Scope, Verb
from kgd.model.globs import Glob
from kgd.tools.areas.coverage import COVERAGE
from kgd.tools.context.stale import BROKEN
from kgd.tools.operation import Operation
from kgd.tools.session import Session
from tests.areas.conftest import Ask
from tests.surfaces.conftest import git, upsert

TASK = "https://tracker.example/1"


@pytest.fixture
def covered(ask: Ask) -> Ask:
    area(ask, "Auth", "src/auth/**")
    area(ask, "Python", "**/*.py")
    ask.ingest()
    return ask


def area(ask: Ask, name: str, *paths: str) -> str:
    made = ask.manage_graph(operation="create", entityType="atom", name=name, paths=list(paths), createdByTaskId=TASK)
    return str(made["data"]["atom"]["id"])


def told(one: dict[str, Any]) -> tuple[str, int, int, int, list[str]]:
    return one["path"], one["files"], one["covered"], one["shared"], [area["name"] for area in one["areas"]]


def test_a_folder_is_listed_with_its_direct_content(covered: Ask) -> None:
    answer = covered.coverage()
    assert told(answer["folder"]) == ("", 6, 3, 2, ["Python", "Auth"])
    assert [told(one) for one in answer["folders"]] == [("docs", 1, 0, 0, []), ("src", 3, 3, 2, ["Python", "Auth"])]
    assert [(one["name"], one["areas"]) for one in answer["files"]] == [("README.md", []), ("logo.bin", [])]
    inside = covered.coverage(path="./src/auth/")
    assert [told(one)[0] for one in inside["folders"]] == []
    assert [(one["path"], [area["name"] for area in one["areas"]]) for one in inside["files"]] == [
        ("src/auth/keys.py", ["Auth", "Python"]),
        ("src/auth/session.py", ["Auth", "Python"]),
    ]
    assert covered.coverage(path="dir://shop/src")["folder"] == covered.coverage(path="src")["folder"]


def test_overlaps_are_listed_with_an_example_folder(covered: Ask) -> None:
    (overlap,) = covered.coverage()["overlaps"]
    assert [one["name"] for one in overlap["areas"]] == ["Auth", "Python"]
    assert (overlap["files"], overlap["folder"]) == (2, "src/auth")


def test_entries_with_an_area_come_first_on_request(covered: Ask) -> None:
    by_name, first = covered.coverage(), covered.coverage(order="covered")
    assert [one["name"] for one in by_name["folders"]] == ["docs", "src"]
    assert [one["name"] for one in first["folders"]] == ["src", "docs"]
    files = [bool(one["areas"]) for one in first["files"]]
    assert files == sorted(files, reverse=True)


def test_a_long_folder_is_paged_with_gaps_first_on_request(covered: Ask, code: Path) -> None:
    for number in range(12):
        (code / f"bare{number:02}.txt").write_text("x\n")
    covered.ingest()
    names, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        answer = covered.coverage(order="gaps", limit=5, cursor=cursor)
        names += [one["name"] for one in (*answer["folders"], *answer["files"])]
        cursor, pages = answer.get("cursor"), pages + 1
    assert pages == 4
    assert len(names) == len(set(names)) == answer["total"] == 16
    entries = covered.coverage(order="gaps", limit=50)
    assert [one["name"] for one in entries["folders"]] == ["docs", "src"]
    uncovered = [one["name"] for one in entries["files"] if not one["areas"]]
    assert names[: 1 + len(uncovered)] == ["docs", *uncovered]
    with pytest.raises(Invalid, match="cursor"):
        covered.coverage(path="src", cursor=covered.coverage(limit=1)["cursor"])


def test_an_area_has_its_files_page_by_page(covered: Ask) -> None:
    python = "atom://shop/Python"
    first = covered.coverage(area=python, limit=2)
    rest = covered.coverage(area=python, limit=2, cursor=first["cursor"])
    assert first["area"] == {"uri": python, "name": "Python", "files": 3}
    found = [one["path"] for one in (*first["files"], *rest["files"])]
    assert sorted(found) == ["src/auth/keys.py", "src/auth/session.py", "src/checkout.py"]
    assert "cursor" not in rest


def test_writes_and_deletions_are_counted_at_once(covered: Ask, code: Path) -> None:
    docs = area(covered, "Docs", "docs")
    assert covered.coverage()["folder"]["covered"] == 4
    (code / "src/auth/keys.py").unlink()
    covered.ingest()
    assert covered.coverage()["folder"]["covered"] == 3
    version = covered.query_graph(operation="get", entityType="atom", id=docs)["data"]["atom"]["version"]
    covered.manage_graph(operation="delete", entityType="atom", id=docs, version=version)
    assert covered.coverage()["folder"]["covered"] == 2


def test_areas_with_changed_code_are_listed_most_changed_first(covered: Ask, code: Path) -> None:
    assert covered.coverage()["moved"] == []
    (code / "src/auth/keys.py").write_text("".join(f"KEY{number} = {number}\n" for number in range(90)))
    when = f"@{int(time.time()) + 60} +0000"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_AUTHOR_DATE", when)
        patch.setenv("GIT_COMMITTER_DATE", when)
        git(code, "commit", "-q", "-am", "keys")
    covered.ingest()
    moved = covered.coverage()["moved"]
    assert [one["name"] for one in moved] == ["Auth", "Python"]
    assert (moved[0]["changed"], moved[0]["commits"]) == (91, 1)
    assert "since it was last confirmed" in moved[0]["unverified"]


def test_an_unknown_folder_is_reported(covered: Ask) -> None:
    with pytest.raises(NotFound, match=r"no such folder .*\. coverage lists the folders at the top"):
        covered.coverage(path="src/nowhere")
    with pytest.raises(Invalid, match="outside"):
        covered.coverage(path="../elsewhere")
    with pytest.raises(NotFound, match="no such atom"):
        covered.coverage(area="nobody")


def test_names_of_arbitrary_bytes_are_listed_and_entered(covered: Ask, code: Path) -> None:
    odd = code / "odd\udcff"
    odd.mkdir()
    (odd / "a\nb.py").write_text("x = 1\n")
    covered.ingest()
    folder = next(one for one in covered.coverage()["folders"] if one["name"].startswith("odd"))
    assert folder["uri"] == "dir://shop/odd%FF"
    (inside,) = covered.coverage(path=folder["uri"])["files"]
    assert [area["name"] for area in inside["areas"]] == ["Python"]


@pytest.mark.parametrize("tool", [COVERAGE, BROKEN])
def test_a_token_is_not_told_what_this_machine_has(covered: Ask, tool: Operation) -> None:
    scope = Scope(frozenset(Verb), "shop", (Glob("/**"),))
    holder = Principal("id", "Bo", "agent", (scope,))
    session = Session(covered.session.daemon, client="c", context_id=None, principal=holder)
    with pytest.raises(Forbidden):
        tool.call(session, {"workspace": "shop"})


@pytest.mark.requirement("E9")
def test_broken_links_are_listed_by_missing_node(ask: Ask) -> None:
    ask.put(
        changes=[
            upsert(
                "a",
                name="A",
                relations=[
                    {"type": "needs", "target": "concept://shop/nobody"},
                    {"type": "needs", "target": "concept://shop/z"},
                ],
            ),
            upsert("b", name="B", relations=[{"type": "knows", "target": "concept://shop/nobody", "weight": 0.5}]),
        ]
    )
    answer = ask.broken()
    assert answer["links"] == 3
    nobody, z = answer["broken"]
    assert (nobody["uri"], z["uri"]) == ("concept://shop/nobody", "concept://shop/z")
    assert [(link["source"], link["type"]) for link in nobody["links"]] == [
        ("concept://shop/a", "needs"),
        ("concept://shop/b", "knows"),
    ]
    first = ask.broken(limit=1)
    rest = ask.broken(limit=5, cursor=first["cursor"])
    assert [len(one["links"]) for one in (*first["broken"], *rest["broken"])] == [1, 1, 1]
    ask.put(changes=upsert("nobody", name="Found"))
    assert [one["uri"] for one in ask.broken()["broken"]] == ["concept://shop/z"]
