"""The resolution of a conflict: both versions, the previewed commit, and the result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.resolution.test_provider import Endpoint
from tests.ui.colleague import Colleague
from tests.ui.conftest import Desk, Watched, at, axe
from tests.waiting import until
from tests.workspace.people import git

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]

AUTH = "concept://shop/services/auth"
BEFORE = "# Keys\n\nThey rotate daily.\n\nA vault holds them.\n\nAnn looks after it.\n"


@pytest.fixture(scope="module")
def bob(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Colleague]:
    made = Colleague(desk, tmp_path_factory.mktemp("bob"))
    yield made
    made.close()


def look(page: Page, id: str) -> Page:
    return at(page, f"conflict?id={quote(id, safe='')}")


def message(desk: Desk) -> str:
    """Return the message of the newest commit."""
    return desk.git("log", "-1", "--format=%an%n%B", "refs/kgd/head")


def test_a_resolved_conflict_leads_to_the_next_one(desk: Desk, bob: Colleague, page: Page) -> None:
    for name in ("one", "two"):
        bob.disagree(f"insight://shop/{name}-of-two", "summary", f"{name} here", f"{name} there", was=name)
    at(page, "conflicts")
    page.get_by_role("link", name="Compare and edit").first.click()
    expect(page.get_by_text("Conflict 1 of 2")).to_be_visible()
    first = page.locator("h1").inner_text()
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_text("Conflict 2 of 2")).to_be_visible()
    page.keyboard.press("a")
    page.get_by_role("button", name="Preview commit").click()
    page.get_by_role("button", name="Commit").click()
    expect(page.locator(".said")).to_contain_text("Resolved with commit")
    expect(page.locator("h1")).to_have_text(first)
    page.keyboard.press("a")
    page.get_by_role("button", name="Resolve", exact=True).click()
    expect(page.locator("h1")).to_have_text("Conflicts")
    bob.agree()


@pytest.mark.requirement("B6")
@pytest.mark.requirement("E13")
def test_a_conflict_of_a_real_sync_is_previewed_and_resolved_by_keyboard(
    desk: Desk, bob: Colleague, page: Page
) -> None:
    id = bob.disagree(AUTH, "summary", "Issues tokens for an hour", "Issues session tokens", was="Issues tokens")
    at(page, "conflicts")
    page.get_by_role("link", name="Compare and edit").first.focus()
    page.keyboard.press("Enter")
    for letter, author, text in (("A", "Bob Builder", "session"), ("B", "Ann Person", "for an hour")):
        version = page.get_by_role("region", name=f"Version {letter}")
        expect(version).to_contain_text(author)
        expect(version.locator(".words").first.locator("ins")).to_have_text(text, use_inner_text=True)
    assert axe(page) == []
    hint = page.get_by_text("Your choice appears here.")
    expect(hint).to_be_visible()
    page.keyboard.press("b")
    expect(hint).to_be_hidden()
    result = page.get_by_label("Result, summary")
    expect(result).to_have_value("Issues tokens for an hour")
    page.keyboard.press("a")
    expect(result).to_have_value("Issues session tokens")
    page.get_by_label("Reason").fill("sessions are what counts")
    page.get_by_role("button", name="Preview commit").focus()
    page.keyboard.press("Enter")
    tip = desk.git("rev-parse", "refs/kgd/head")
    shown = page.locator(".commit pre").inner_text()
    expect(page.locator(".change")).to_contain_text("Issues session tokens for an hour")
    assert desk.git("rev-parse", "refs/kgd/head") == tip, "nothing was written to show it"
    assert axe(page) == []
    page.get_by_role("button", name="Commit").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".said")).to_contain_text("Resolved with commit")
    assert message(desk).strip() == f"Ann Person (kgd ui)\n{shown}".strip()
    assert desk.node(AUTH)["summary"] == "Issues session tokens"
    bob.agree()
    assert bob.summary("services/auth") == "Issues session tokens"
    assert not bob.open_about(AUTH)
    assert id.rpartition("#")[2] in shown


def test_a_conflict_shows_the_reasons_of_its_authors_and_the_cited_code(desk: Desk, bob: Colleague, page: Page) -> None:
    uri = "insight://shop/signed"
    desk.put(uri, name="Signed", summary="Tokens are signed", data={"cites": ["src/auth/session.py#sign"]})
    bob.agree()
    change = {"op": "upsert", "uri": uri, "summary": "Tokens are signed once a day"}
    desk.call("put", changes=[change], message="Seen in the logs\n\nOf May and June.")
    bob.put_whole(uri, summary="Tokens are signed with a key")
    bob.agree()
    look(page, bob.open_about(uri)[-1])
    ours = page.locator(".version", has_text="Ann Person")
    expect(ours.get_by_label("Reason")).to_have_text("Seen in the logs\n\nOf May and June.")
    theirs = page.locator(".version", has_text="Bob Builder")
    expect(theirs.get_by_label("Reason"), "kgd wrote the message itself").to_have_count(0)
    expect(page.get_by_role("region", name="Cited code")).to_contain_text("def sign(token):")
    assert axe(page) == []
    at(page, "conflicts")
    listed = page.locator("article", has_text="once a day")
    expect(listed.locator("ins", has_text="once a day")).to_be_visible()
    expect(listed.get_by_role("link", name="Choose")).to_have_count(0)


def test_a_value_that_was_written_since_can_be_kept(desk: Desk, bob: Colleague, page: Page) -> None:
    uri = "concept://shop/thrice"
    id = bob.disagree(uri, "summary", "Mine alone", "Theirs alone")
    desk.put(uri, summary="A third value")
    at(page, "conflicts")
    expect(page.locator("article", has_text="Theirs alone")).not_to_contain_text("shown now")
    look(page, id)
    current = page.get_by_role("region", name="Written since")
    for text in ("Ann Person", "shown now", "written after the conflict", "A third value"):
        expect(current).to_contain_text(text)
    page.get_by_label("Choose the current value").check()
    page.get_by_role("button", name="Preview commit").click()
    page.get_by_role("button", name="Commit").click()
    expect(page.locator(".said")).to_contain_text("Resolved with commit")
    assert desk.node(uri)["summary"] == "A third value"
    assert not bob.open_about(uri)


def test_the_form_of_a_fact_in_conflict_begins_with_the_version_in_use(
    desk: Desk, bob: Colleague, page: Page, watched: Watched
) -> None:
    uri = "insight://shop/in-use"
    bob.disagree(uri, "summary", "Ours is in use", "Theirs is newer", was="Before")
    in_use = desk.node(uri)["summary"]
    at(page, f"node?uri={uri}")
    told = page.get_by_role("note").filter(has_text="In conflict")
    expect(told.locator(".side")).to_have_count(2)
    expect(told.locator(".side", has_text="shown now")).to_contain_text(in_use)
    expect(told.get_by_role("link", name="Ann Person")).to_be_visible()
    assert axe(page) == []
    at(page, f"node?uri={uri}&as_of={desk.node(uri)['origin']['commit']}")
    expect(page.locator(".past")).not_to_contain_text("Newest version")
    expect(page.locator(".past").get_by_role("link", name="One side of an open conflict")).to_be_visible()
    page.get_by_role("link", name="Current version").click()
    page.get_by_role("link", name="Edit", exact=True).click()
    expect(page.get_by_label("Summary")).to_have_value(in_use)
    expect(page.get_by_role("note").locator(".side", has_text="shown now")).to_contain_text(in_use)
    assert axe(page) == []
    desk.put(uri, tags=["meanwhile"])
    page.get_by_label("Content").fill("Only this is new.")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Ann Person changed this while you were editing")
    watched.troubles.clear()  # the browser reports the status 409
    page.get_by_role("button", name="Save").click()
    said = page.locator(".said")
    expect(said).to_contain_text("The fact is in conflict: choose a version on the page Conflicts.")
    expect(said).not_to_contain_text("://")
    saved = desk.node(uri)
    assert (saved["summary"], saved["content"].strip(), saved["tags"]) == (in_use, "Only this is new.", ["meanwhile"])
    told.get_by_role("link", name="Resolve").click()
    page.get_by_label("Choose B").check()
    page.get_by_role("button", name="Resolve", exact=True).click()
    expect(page.locator(".said")).to_contain_text("Resolved")
    bob.agree()


def test_the_author_of_a_third_version_is_named(desk: Desk, bob: Colleague, page: Page) -> None:
    uri = "insight://shop/third-author"
    bob.disagree(uri, "summary", "Of Ann", "Of Bob", was="Before")
    with renamed(bob, "Carla Moreno"):
        bob.put_whole(uri, summary="Of Carla")
    bob.put_whole(uri, tags=["later"])
    bob.agree()
    at(page, f"node?uri={uri}")
    expect(page.locator(".title")).to_contain_text("Of Carla")
    expect(page.locator(".title")).to_contain_text("versions by Carla Moreno")
    page.get_by_role("link", name="Resolve").click()
    current = page.get_by_role("region", name="Written since")
    expect(current).to_contain_text("Carla Moreno")
    current.get_by_text("Choose the current value").click()
    page.get_by_role("button", name="Resolve", exact=True).click()
    expect(page.locator(".said")).to_contain_text("Resolved")
    bob.agree()


@contextmanager
def renamed(bob: Colleague, name: str) -> Iterator[None]:
    """Let Bob's copy of the workspace write under another name."""
    git_dir = bob.workspace.layout.git_dir
    git(git_dir, "config", "user.name", name)
    yield
    git(git_dir, "config", "user.name", "Bob Builder")


def test_a_conflict_is_resolved_in_three_clicks_and_undone_in_one(desk: Desk, bob: Colleague, page: Page) -> None:
    uri, was = "concept://shop/three", "Cards are charged. " * 20
    bob.disagree(uri, "content", "Nova Bank settles at night.", "Ann pays all invoices by hand.", was=was)
    at(page, "conflicts")
    page.get_by_role("link", name="Compare and edit three").click()
    for letter in "AB":  # plain text, because the versions share no words
        version = page.get_by_role("region", name=f"Version {letter}")
        expect(version.locator(".words").first.locator("ins")).to_have_count(0)
        expect(version.locator(".words").first.locator("del")).to_have_count(0)
        version.get_by_text("With the deleted words").click()
        deleted, inserted = version.locator("del"), version.locator("details ins")
        expect(deleted).to_have_text(was.strip())
        expect(version.locator("details .words")).to_have_text(f"{was} {inserted.inner_text()}")
    chosen = page.get_by_role("region", name="Version B").locator("ins").first.inner_text()
    resolve = page.get_by_role("button", name="Resolve", exact=True)
    expect(resolve).to_be_disabled()
    expect(page.get_by_text("Choose a version first.")).to_be_visible()
    page.get_by_text("Choose B").click()
    expect(page.get_by_label("Result, content")).to_have_value(chosen)
    resolve.click()
    expect(page.locator(".said")).to_contain_text("Resolved with commit")
    assert desk.call("get", uris=[uri], include=["content"])["nodes"][0]["content"] == chosen
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".said")).to_contain_text("Undone")
    assert bob.open_about(uri), "the conflict is open again"


def test_a_conflict_fits_the_screen_of_a_phone(desk: Desk, bob: Colleague, page: Page) -> None:
    id = bob.disagree(
        "concept://shop/phone", "summary", "Two attempts in all, then a person looks.", "Three attempts.", was="One."
    )
    page.set_viewport_size({"width": 390, "height": 844})
    look(page, id)
    bar = page.locator(".confirm").bounding_box()
    choices = [page.get_by_text(f"Choose {letter}", exact=True) for letter in "AB"]
    for one in (*choices, page.get_by_label("Result, summary")):
        box = one.bounding_box()
        assert box is not None
        assert bar is not None
        assert box["y"] + box["height"] <= bar["y"], "the bar covers nothing"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("nav.crumbs").get_by_role("link", name="Conflicts").click()
    card = page.locator(".dispute", has_text="Three attempts.")
    expect(card.get_by_role("link", name="Compare and edit")).to_be_visible()


def test_versions_are_combined_by_parts_or_written_anew(desk: Desk, bob: Colleague, page: Page) -> None:
    uri = "concept://shop/services/keys"
    ours = BEFORE.replace("daily", "weekly").replace("Ann looks", "Ann and Eve look")
    theirs = BEFORE.replace("daily", "each night").replace("Ann looks", "Bob looks")
    bob.disagree(uri, "content", ours, theirs, was=BEFORE)
    desk.put(uri, summary="was")
    bob.disagree(uri, "summary", "by Ann", "by Bob")
    at(page, f"conflict?uri={uri}")
    page.get_by_role("group", name="Part 1").get_by_label("A", exact=True).check()
    page.get_by_role("group", name="Part 2").get_by_label("B", exact=True).check()
    expect(page.get_by_label("Choose parts of both")).to_be_checked()
    expect(page.get_by_label("Result, content")).not_to_have_value(ours)
    mixed_text = page.get_by_label("Result, content").input_value()
    page.get_by_label("Result, summary").fill("by both")
    page.get_by_role("button", name="Preview commit").click()
    page.get_by_role("button", name="Back").click()
    expect(page.get_by_label("Result, summary")).to_have_value("by both")
    page.get_by_role("button", name="Preview commit").click()
    page.get_by_role("button", name="Commit").click()
    expect(page.locator(".said")).to_contain_text("2 conflicts resolved")
    assert message(desk).count("Kgd-Resolves") == 2
    node = desk.call("get", uris=[uri], include=["content"])["nodes"][0]
    mixed = {ours.splitlines()[2], theirs.splitlines()[2]}, {ours.splitlines()[6], theirs.splitlines()[6]}
    lines = node["content"].splitlines()
    assert lines[2] in mixed[0]
    assert lines[6] in mixed[1]
    assert node["content"] == mixed_text, "the result was shown before it was written"
    assert node["content"] not in (ours, theirs)
    assert node["summary"] == "by both"


def test_a_number_is_resolved_by_a_number_written_as_json(
    desk: Desk, bob: Colleague, page: Page, watched: Watched
) -> None:
    uri = "concept://shop/limits"
    id = bob.disagree(uri, "data", {"limit": 10}, {"limit": 20}, was={"limit": 1})
    look(page, id)
    expect(page.get_by_text('You can edit it as JSON: a number, true, a text in "quotes"')).to_be_visible()
    result = page.get_by_role("region", name="Result").get_by_role("textbox")
    result.fill("fifteen")
    page.get_by_role("button", name="Resolve", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("is not JSON")
    watched.troubles.clear()  # the browser notes each answer of 422
    result.fill("15")
    page.get_by_role("button", name="Resolve", exact=True).click()
    expect(page.locator(".said")).to_contain_text("Resolved with commit")
    assert desk.node(uri)["data"] == {"limit": 15}


def test_the_page_of_a_change_links_to_the_conflict_that_it_caused_or_resolved(
    desk: Desk, bob: Colleague, page: Page
) -> None:
    uri = "concept://shop/linked"
    bob.disagree(uri, "summary", "ours", "theirs", was="was")
    ours = next(one for one in desk.call("history", uri=uri)["commits"] if one["author"] == "Ann Person")["commit"]
    at(page, f"change?commit={ours}")
    expect(page.get_by_role("note")).to_contain_text("This change is one side of an open conflict about “linked”.")
    assert axe(page) == []
    page.get_by_role("link", name="Open the conflict").click()
    page.get_by_label("Choose B").check()
    page.get_by_role("button", name="Resolve", exact=True).click()
    page.locator(".said a").click()
    resolved = page.get_by_role("region", name="Resolved conflict")
    expect(resolved).to_contain_text("Before: was")
    expect(resolved.locator(".version", has_text="ours")).not_to_contain_text("chosen")
    expect(resolved.locator(".version", has_text="theirs")).to_contain_text("chosen")
    expect(page.get_by_role("note")).to_have_count(0)
    assert axe(page) == []


def test_a_resolution_that_keeps_the_shown_version_shows_both(desk: Desk, bob: Colleague, page: Page) -> None:
    id = bob.disagree("concept://shop/kept", "summary", "ours", "theirs")
    (field,) = desk.call("conflicts", id=id)["conflicts"][0]["fields"].values()
    shown = next(side["value"] for side in field["sides"] if side["side"] == field["shown"])
    commit = desk.call("resolve", resolutions=[{"id": id, "take": field["shown"]}])["commit"]
    at(page, f"change?commit={commit}")
    resolved = page.get_by_role("region", name="Resolved conflict")
    expect(resolved.locator(".version")).to_have_count(2)
    expect(resolved.locator(".version", has_text="chosen")).to_contain_text(shown)
    expect(page.locator("h1")).to_have_text("Resolved a conflict")
    expect(page.locator("main")).to_contain_text("The version shown before was kept.")


def test_the_second_user_sees_the_first_resolution_and_keeps_the_typed_text(
    desk: Desk, bob: Colleague, page: Page
) -> None:
    uri = "concept://shop/second"
    id = bob.disagree(uri, "summary", "ours", "theirs")
    look(page, id)
    page.get_by_label("Result, summary").fill("a third one\nthat took long")
    desk.call("resolve", resolutions=[{"id": id, "take": "a"}], message="Ann was quicker")
    page.get_by_role("button", name="Preview commit").click()
    main = page.locator("main")
    expect(main).to_contain_text("Ann Person resolved this")
    expect(main).to_contain_text("Ann was quicker")
    expect(page.get_by_label("Your version")).to_have_value("a third one\nthat took long")
    assert axe(page) == []
    assert message(desk).splitlines()[1] == "Ann was quicker", "nothing was written over it"


def test_a_conflict_in_the_settings_is_resolved_like_any_other(desk: Desk, bob: Colleague, page: Page) -> None:
    bob.agree()
    for settings, label in ((desk.code / ".kgd/kgd.yaml", "Shop"), (bob.work_tree / "kgd.yaml", "Store")):
        settings.write_text(f"{settings.read_text()}label: {label}\n")
    bob.workspace.hint(None)
    until(lambda: "label: Shop" in desk.git("show", "refs/kgd/head:kgd.yaml"))
    until(lambda: "label: Store" in git(bob.work_tree, "show", f"{bob.tip}:kgd.yaml"))
    bob.agree()
    [id] = bob.open_about("kgd://shop/settings")
    look(page, id)
    expect(page.get_by_role("heading", level=1)).to_contain_text("settings")
    versions = [page.get_by_role("region", name=f"Version {letter}").inner_text() for letter in "AB"]
    letter = "A" if "Store" in versions[0] else "B"
    assert "Shop" in versions["BA".index(letter)]
    assert axe(page) == []
    page.get_by_label(f"Choose {letter}").check()
    page.get_by_role("button", name="Preview commit").click()
    page.get_by_role("button", name="Commit").click()
    expect(page.locator(".said")).to_contain_text("Resolved")
    assert "label: Store" in desk.git("show", "refs/kgd/head:kgd.yaml")
    until(lambda: "label: Store" in (desk.code / ".kgd/kgd.yaml").read_text())
    bob.agree()
    assert not bob.open_about("kgd://shop/settings")
    assert "label: Store" in git(bob.work_tree, "show", f"{bob.tip}:kgd.yaml")


@pytest.mark.parametrize("kind", ["deleted", "moved", "twins"])
def test_conflicts_of_whole_nodes_label_each_choice(desk: Desk, bob: Colleague, page: Page, kind: str) -> None:
    one, other = f"concept://shop/{kind}/one", f"concept://shop/{kind}/other"
    if kind == "twins":
        one = other.replace("other", "Other")
        desk.put(one, summary="here")
        bob.put_whole(other, summary="there")
    else:
        desk.put(one, summary="was")
        bob.agree()
    if kind == "deleted":
        desk.put(one, summary="edited")
        bob.call("put", changes=[{"op": "delete", "uri": one}])
    elif kind == "moved":
        desk.call("put", changes=[{"op": "move", "uri": one, "to": f"{other}-by-ann"}])
        bob.call("put", changes=[{"op": "move", "uri": one, "to": f"{other}-by-bob"}])
    bob.agree()
    (id,) = [
        found for found in (item["id"] for item in desk.call("conflicts", limit=200)["conflicts"]) if kind in found
    ]
    if kind == "deleted":
        at(page, f"node?uri={one}")
        expect(page.get_by_role("note").locator(".side", has_text="Bob Builder")).to_contain_text("deleted")
    look(page, id)
    label = {
        "deleted": "Delete the node",
        "moved": f"Name it {other}-by-ann",
        "twins": f"Merge both as {one}",
    }[kind]
    page.get_by_label(label, exact=True).check()
    page.get_by_role("button", name="Preview commit").click()
    expect(page.locator(".change .bad")).to_have_text("deleted")
    page.get_by_role("button", name="Commit").click()
    expect(page.locator(".said")).to_contain_text("Resolved")
    there = desk.call("get", uris=[other if kind == "twins" else f"{other}-by-ann" if kind == "moved" else one])
    assert [node["uri"] for node in there["nodes"]] == {
        "deleted": [],
        "moved": [f"{other}-by-ann"],
        "twins": [one],
    }[kind]


def test_a_missing_choice_and_an_unknown_conflict_are_reported(
    desk: Desk, bob: Colleague, page: Page, watched: Watched
) -> None:
    uri = "concept://shop/nothing-chosen"
    id = bob.disagree(uri, "name", "ours", "theirs")
    look(page, id)
    resolve = page.get_by_role("button", name="Resolve", exact=True)
    expect(resolve).to_be_disabled()
    page.get_by_label("Result, name").fill("a third one")
    expect(resolve).to_be_enabled()
    page.reload()
    page.locator("#resolve").evaluate("form => form.noValidate = true")  # as a browser that checks nothing
    resolve.evaluate("button => { button.disabled = false; button.click(); }")
    expect(page.get_by_role("alert")).to_contain_text("Nothing was chosen for the name")
    look(page, f"{uri}#{'0' * 16}")
    expect(page.get_by_role("alert")).to_contain_text("There is no such conflict")
    watched.troubles.clear()  # the browser notes each answer of 4xx


@pytest.mark.requirement("E19")
def test_one_suggestion_is_accepted_and_another_dismissed(desk: Desk, page: Page) -> None:
    for number in range(3):
        desk.put(f"concept://shop/notes/n{number}", content=f"Call {number}: Nova Bank and Blue Crane pay.")
    at(page, "conflicts?part=suggestions")
    assert axe(page) == []
    page.locator("article", has_text="Nova Bank”").get_by_role("button", name="Preview commit").click()
    expect(page.locator(".change")).to_contain_text("created")
    page.get_by_role("button", name="Commit").click()
    expect(page.locator(".said")).to_contain_text("Resolved with commit")
    assert "Kgd-Op: suggestion" in message(desk)
    page.locator("article", has_text="Blue Crane”").get_by_role("button", name="Dismiss").click()
    expect(page.locator(".said")).to_contain_text("Dismissed")
    expect(page.locator("article", has_text="Blue Crane”")).to_have_count(0)


def test_the_configured_model_is_asked_only_on_request(desk: Desk, bob: Colleague, page: Page) -> None:
    endpoint = Endpoint()
    uri = "concept://shop/for-the-model"
    id = bob.disagree(uri, "summary", "two", "one", was="nought")
    look(page, id)
    expect(page.locator(".model")).to_have_count(0)
    registry = Path(desk.home.registry)
    text = registry.read_text()
    registry.write_text(f"{text}settings:\n  resolver_url: {endpoint.url}\n  resolver_model: small\n")
    try:
        look(page, id)
        page.locator(".model summary").click()
        expect(page.locator(".model")).to_contain_text("the model small at 127.0.0.1")
        assert endpoint.asked == []
        page.locator(".model button").click()
        expect(page.locator(".said")).to_contain_text("resolved it with commit")
    finally:
        registry.write_text(text)
        endpoint.server.shutdown()
        endpoint.server.server_close()
    assert "Kgd-Resolved-By: provider model=" in message(desk)


def test_a_conflict_is_resolved_without_scripts_on_a_narrow_screen(desk: Desk, bob: Colleague, page: Page) -> None:
    id = bob.disagree("concept://shop/plain", "summary", "ours", "theirs")
    browser = page.context.browser
    assert browser is not None
    plain = browser.new_context(java_script_enabled=False, viewport={"width": 360, "height": 700})
    tab = plain.new_page()
    tab.goto(desk.link())
    tab.get_by_role("button", name="Open kgd in this browser").click()
    look(tab, id)
    expect(tab.get_by_role("button", name="Resolve", exact=True)).to_be_enabled()
    tab.get_by_label("Choose B").check()
    tab.get_by_role("button", name="Preview commit").click()
    tab.get_by_role("button", name="Commit").click()
    expect(tab.locator(".said")).to_contain_text("Resolved")
    plain.close()
    page.set_viewport_size({"width": 360, "height": 700})
    look(page, id)
    expect(page.locator("h1")).to_have_text("Already resolved")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
