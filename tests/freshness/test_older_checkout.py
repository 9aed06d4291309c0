"""A checkout that lacks a rename of the code, after the facts were moved to the new path on another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kgd.model.uri import from_path
from tests.freshness.conftest import SESSION, becomes_stale, commit
from tests.freshness.test_moved_code import CITING, LOGIN, RELATED, facts, move, node, rename
from tests.surfaces.conftest import Ask, git, upsert
from tests.waiting import until

__all__ = ["facts"]


def check_out(ask: Ask, code: Path, revision: str) -> None:
    """Check out a commit, and wait until the code tree has been read again."""
    git(code, "checkout", "-q", revision)
    workspace = ask.session.daemon.workspace("shop")

    def is_noticed(path: str) -> bool:
        return workspace.in_overlay(from_path("file", "shop", path)) == (code / path).exists()

    until(lambda: is_noticed(SESSION) and is_noticed(LOGIN))


def move_and_check_out_before(ask: Ask, code: Path, old: str = SESSION, new: str = LOGIN) -> None:
    rename(code, old, new)
    becomes_stale(ask, CITING)
    move(ask, f"./{old}", f"./{new}")
    check_out(ask, code, "HEAD~1")


def reasons(answer: Any) -> dict[str, str]:
    return {one["uri"]: one["why"] for one in answer}


@pytest.mark.usefixtures("facts")
def test_the_former_path_has_the_facts_in_a_checkout_from_before_the_rename(ask: Ask, code: Path) -> None:
    move_and_check_out_before(ask, code)
    told = {CITING: f"cites sign in {SESSION}, now {LOGIN}", RELATED: f"about {SESSION}, now {LOGIN}"}
    answer = ask.context(paths=SESSION)
    assert (reasons(answer["items"]), answer["described"]) == (told, [SESSION])
    [line, *_] = ask.context(paths=f"{SESSION}:1")["items"]
    assert (line["uri"], "cites sign" in line["why"]) == (CITING, True)
    assert reasons(ask.code_file(uri=f"./{SESSION}")["notes"]) == {
        CITING: f"cites {SESSION}, now {LOGIN}",
        RELATED: f"about {SESSION}, now {LOGIN}",
    }
    until(lambda: not ask.stale()["nodes"], say=ask.stale)
    [cited, _] = ask.get(uris=CITING, include=["citations"])["nodes"][0]["citations"]
    assert (cited["text"], cited["state"], cited["file"]) == (f"{LOGIN}#sign", "verified", f"file://shop/{SESSION}")


@pytest.mark.slow
@pytest.mark.usefixtures("facts")
def test_the_area_of_the_former_path_has_the_facts_in_a_checkout_from_before_the_rename(ask: Ask, code: Path) -> None:
    move_and_check_out_before(ask, code)
    area = {"entityType": "atom", "name": "Login", "paths": [SESSION], "createdByTaskId": "https://example.org/1"}
    uri = ask.manage_graph(operation="create", **area)["data"]["atom"]["id"]
    facts = ask.area_facts(area=uri)["facts"]
    assert {one["uri"]: one["files"] for one in facts} == {CITING: [SESSION], RELATED: [SESSION]}
    assert ask.coverage(area=uri)["files"][0]["facts"] == 2


@pytest.mark.usefixtures("facts")
def test_a_relation_to_code_that_is_not_checked_out_yet_names_the_path_that_is(ask: Ask, code: Path) -> None:
    move_and_check_out_before(ask, code)
    [broken] = ask.broken()["broken"]
    assert (broken["uri"], broken["former"]) == (f"file://shop/{LOGIN}", SESSION)
    assert broken["next"] == f"The checked-out code still has it as {SESSION}; update the code."
    assert ask.broken(uri=LOGIN)["broken"] == [broken], "a terminal shows the missing file as this path"
    check_out(ask, code, "-")
    assert ask.broken()["broken"] == []


@pytest.mark.usefixtures("facts")
def test_a_change_of_the_former_path_makes_the_facts_stale(ask: Ask, code: Path) -> None:
    move_and_check_out_before(ask, code)
    commit(code, SESSION, "def sign(token):\n    return hmac(token)\n")
    assert f"sign in {SESSION} changed" in becomes_stale(ask, CITING)["unverified"]["reason"]


@pytest.mark.slow
@pytest.mark.usefixtures("facts")
def test_files_of_a_folder_that_is_renamed_later_have_the_facts_about_it(ask: Ask, code: Path) -> None:
    folder = "insight://shop/folder"
    ask.put(changes=[upsert(folder, summary="it signs", relations=[{"type": "about", "target": "./src/auth"}])])
    rename(code, "src/auth", "src/signing")
    becomes_stale(ask, CITING)
    move(ask, "./src/auth", "./src/signing")
    check_out(ask, code, "HEAD~1")
    found = reasons(ask.context(paths=SESSION)["items"])
    assert found.keys() == {CITING, RELATED, folder}
    assert found[folder] == f"about src/signing/, the new folder of {SESSION}"
    assert reasons(ask.context(paths="src/auth/")["items"])[folder] == "about src/signing/, the new path of src/auth/"


@pytest.mark.usefixtures("facts")
def test_a_node_of_the_file_is_found_by_the_former_path(ask: Ask, code: Path) -> None:
    ask.put(changes=[upsert(f"file://shop/{SESSION}", summary="signs sessions")])
    move_and_check_out_before(ask, code)
    assert f"file://shop/{LOGIN}" in reasons(ask.context(paths=SESSION)["items"])


@pytest.mark.usefixtures("facts")
def test_another_file_at_the_former_path_has_none_of_the_facts(ask: Ask, code: Path) -> None:
    rename(code)
    becomes_stale(ask, CITING)
    move(ask)
    commit(code, SESSION, "SESSIONS = {}\n", "another file of this name")
    assert ask.context(paths=SESSION)["items"] == []


@pytest.mark.slow
@pytest.mark.usefixtures("facts")
def test_later_renames_lead_from_each_former_path_to_the_last(ask: Ask, code: Path) -> None:
    rename(code)
    becomes_stale(ask, CITING)
    move(ask)
    rename(code, LOGIN, "src/last.py")
    becomes_stale(ask, CITING)
    move(ask, f"./{LOGIN}", "./src/last.py")
    for revision, path in (("HEAD~1", LOGIN), ("HEAD~1", SESSION)):
        check_out(ask, code, revision)
        assert reasons(ask.context(paths=path)["items"])[RELATED] == f"about {path}, now src/last.py"


@pytest.mark.slow
@pytest.mark.usefixtures("facts")
def test_a_rename_back_leaves_no_record_of_the_present_path(ask: Ask, code: Path) -> None:
    rename(code)
    becomes_stale(ask, CITING)
    move(ask)
    rename(code, LOGIN, SESSION)
    becomes_stale(ask, CITING)
    move(ask, f"./{LOGIN}", f"./{SESSION}")
    assert node(ask, RELATED)["data"]["renamed_code"] == {LOGIN: SESSION}
    assert reasons(ask.context(paths=SESSION)["items"])[RELATED] == f"about {SESSION}"
