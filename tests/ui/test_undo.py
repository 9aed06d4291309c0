"""After a change, the next page links to its commit and offers to undo it."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from kgd.errors import Advice, Do
from kgd.ui.visit import Notice, reported
from tests.ui.colleague import Colleague
from tests.ui.conftest import Desk, at, axe


def test_a_message_splits_around_its_commit() -> None:
    commit = "0123456789abcdef"
    notice = Notice.read(Notice(f"Saved with commit {commit[:10]}. Note: x.", commit, "shop").written())
    assert notice is not None
    assert notice.parts == ("Saved with commit ", commit[:10], ". Note: x.")
    assert Notice("Area created.", commit).parts == ("Area created.", "", "")


def test_a_change_is_reported_with_its_commit_its_warnings_and_similar_nodes() -> None:
    advice = Advice("settle it with ", Do("resolve"))
    answer = {"commit": "0123456789abcdef", "warnings": ["a link is broken", advice], "similar": [{"like": ["a", "b"]}]}
    report = reported("/ui/", answer, "Deleted", more="Look.")
    assert (report.to, report.undo) == ("/ui/", "0123456789abcdef")
    said, _, rest = report.said.partition(" A link is broken. Settle it with ")
    assert said == "Deleted with commit 0123456789."
    assert rest == "`kgd resolve`. It may duplicate a, b. Look.", "a command instead of a tool"
    assert reported("/ui/", {"commit": None}, nothing="Known already.").said == "Known already."


@pytest.mark.parametrize("text", ["Saved", "3", "[]", '{"other": 1}'])
def test_a_message_of_an_earlier_version_is_shown_as_text(text: str) -> None:
    assert Notice.read(text) == Notice(text)
    assert Notice.read("") is None


@pytest.mark.needs("chromium")
@pytest.mark.slow
def test_a_save_a_rename_and_a_deletion_are_each_undone_with_one_click(desk: Desk, page: Page) -> None:
    uri = "concept://shop/undone"
    desk.put(uri, name="Undone", summary="Before")
    at(page, f"node/edit?uri={uri}")
    page.get_by_label("Summary").fill("After")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("h1 + p")).to_have_text("After")
    page.locator(".said a").click()
    expect(page.locator(".side-by-side ins")).to_have_text("After")
    assert axe(page) == []
    page.go_back()
    at(page, f"node/edit?uri={uri}")
    page.get_by_label("Summary").fill("Later")
    page.get_by_role("button", name="Save").click()
    undo(page)
    expect(page.locator("h1 + p")).to_have_text("After")
    at(page, f"node?uri={uri}&do=move")
    page.get_by_label("New URI").fill("concept:moved")
    page.get_by_role("button", name="Rename").click()
    undo(page)
    expect(page.locator("main")).to_contain_text(uri)
    at(page, f"node/delete?uri={uri}")
    page.get_by_role("button", name="Delete").click()
    undo(page)
    assert desk.node(uri)["summary"] == "After"


@pytest.mark.needs("chromium")
@pytest.mark.slow
def test_undo_keeps_a_later_change_and_shows_one_that_is_in_the_way(desk: Desk, page: Page) -> None:
    uri = "concept://shop/meanwhile"
    desk.put(uri, name="Meanwhile", summary="Before")
    for summary, later in (("Mine", {"tags": ["theirs"]}), ("Mine again", {"summary": "Theirs"})):
        at(page, f"node/edit?uri={uri}")
        page.get_by_label("Summary").fill(summary)
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".said")).to_contain_text("Saved")
        desk.put(uri, **later)
        if "tags" in later:
            undo(page)
            assert (desk.node(uri)["summary"], desk.node(uri)["tags"]) == ("Before", ["theirs"])
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".said")).to_contain_text("Not undone yet")
    expect(page.locator(".said")).to_contain_text("has changed since")
    expect(page.locator(".side-by-side ins")).to_have_text("Mine again")
    expect(page.get_by_role("button", name="Revert", exact=True)).to_be_visible()
    assert desk.node(uri)["summary"] == "Theirs"
    assert "conflicts" not in desk.node(uri)
    assert page.get_by_role("button", name="Undo").count() == 0


@pytest.mark.needs("chromium")
@pytest.mark.slow
def test_an_accepted_proposal_and_a_resolved_conflict_can_be_undone(desk: Desk, page: Page, tmp_path: Path) -> None:
    uri, other = "concept://shop/proposed", "concept://shop/disputed"
    base = desk.put(uri, name="Proposed", summary="was")["commit"]
    desk.put(uri, summary="is")
    changes = [{"op": "upsert", "uri": one, "summary": "proposed"} for one in (uri, f"{uri}/more")]
    proposal = desk.call("submit_subgraph", changes=changes, base=base, message="better")["proposal"]
    accepted = desk.call("accept", name=proposal)["commit"]
    assert desk.node(f"{uri}/more")["summary"] == "proposed"
    assert "Undone with commit" in undone(page, accepted)
    assert desk.node(uri)["summary"] == "is"
    assert desk.call("get", uris=[f"{uri}/more"])["nodes"] == []
    bob = Colleague(desk, tmp_path)
    id = bob.disagree(other, "summary", "ours", "theirs", was="was")
    bob.close()
    resolved = desk.call("resolve", resolutions=[{"id": id, "take": "a"}])["commit"]
    assert desk.call("conflicts", uri=other)["conflicts"] == []
    assert "Undone with commit" in undone(page, resolved)
    assert [one["id"] for one in desk.call("conflicts", uri=other)["conflicts"]] == [id]
    assert "Not undone yet" in undone(page, resolved)


def undone(page: Page, commit: str) -> str:
    """Undo a commit as the button in a message does, and return the message that follows."""
    proof = page.locator("input[name=proof]").first.get_attribute("value") or ""
    form: dict[str, str | float | bool] = {"proof": proof, "commit": commit, "back": "/ui/w/shop/overview"}
    page.request.post(page.url.replace("/overview", "/undo"), form=form, max_redirects=0)
    page.reload()
    return page.locator(".said").inner_text()


def undo(page: Page) -> None:
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".said")).to_contain_text("Undone with commit")
