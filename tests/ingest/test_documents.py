"""Documents become nodes, chunk by chunk, and a second time changes what changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kgd.errors import Forbidden, Invalid, InvariantViolation, KgdError, NotFound
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, git, upsert
from tests.waiting import until

BOOK = "document://shop/handbook.md"


def section(name: str, *, count: int = 12) -> str:
    """Some sentences under a heading of their own: one chunk or two."""
    return (
        f"## {name.title()}\n\n" + " ".join(f"The {name} rule {n} is to be kept by all." for n in range(count)) + "\n\n"
    )


def text(*names: str) -> str:
    return "# Handbook of the shop\n\nHow we work together here, in short.\n\n" + "".join(map(section, names))


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "elsewhere" / "handbook.md"
    path.parent.mkdir()
    path.write_text(text("welcome", "leave", "travel", "expenses"))
    return path


def chunks(ask: Ask, document: str = BOOK) -> list[dict[str, Any]]:
    """The chunks of a document, as its chain leads through them."""
    found = []
    at = [r["target"] for r in relations(ask, document) if r["type"] == "has_chunk"]
    while at:
        (node,) = ask.get(uris=at, include=["content", "relations"], budget=10_000)["nodes"]
        found.append(node)
        at = [r["target"] for r in node["relations"] if r["type"] == "NEXT_CHUNK"]
    return found


def relations(ask: Ask, uri: str) -> list[dict[str, Any]]:
    (node,) = ask.get(uris=uri, include=["relations"])["nodes"]
    return list(node["relations"])


@pytest.mark.requirement("U8")
@pytest.mark.requirement("U14")
def test_a_document_becomes_a_chain_of_chunks_that_are_found_and_a_second_time_changes_nothing(
    ask: Ask, ws: Workspace, book: Path
) -> None:
    first = ask.ingest(source=str(book), uri=None)
    assert (first["state"], first["nodes"]) == ("done", [BOOK])
    assert first["counts"]["documents_new"] == 1
    (node,) = ask.get(uris=BOOK, include=["content", "relations"])["nodes"]
    assert (node["name"], node["summary"]) == ("Handbook of the shop", "How we work together here, in short.")
    assert node["source"] == {"type": "file", "id": "handbook.md"}
    assert (node["data"]["status"], node["data"]["kind"], node["data"]["bytes"]) == (
        "complete",
        "markdown",
        book.stat().st_size,
    )
    made = chunks(ask)
    assert len(made) == first["counts"]["chunks_new"] == node["data"]["chunks"] >= 3
    assert "".join("".join(one["content"].split()) for one in made) == "".join(book.read_text().split())
    assert all(r["target"] == BOOK for one in made for r in one["relations"] if r["type"] == "part_of")
    assert made[-1]["name"] == "Handbook of the shop › Expenses"
    hit = ask.search(query="travel rule", types=["chunk"])["hits"][0]
    assert hit["uri"].startswith("chunk://shop/handbook.md/")
    assert set(ws.text().by_source("file", "handbook.md")) == {BOOK, *(one["uri"] for one in made)}

    tip = ws.tip
    assert ask.ingest(source=str(book))["counts"] == {"documents_unchanged": 1}
    assert ws.tip == tip


@pytest.mark.requirement("U8")
def test_unchanged_chunks_keep_uri_version_and_user_additions(ask: Ask, ws: Workspace, book: Path) -> None:
    ask.ingest(source=str(book))
    before = {one["name"]: one for one in chunks(ask)}
    ask.put(
        changes=[
            upsert(
                before["Handbook of the shop › Travel"]["uri"],
                relations=[{"type": "about", "target": "concept://shop/x"}],
            ),
            upsert(BOOK, summary="Ann's own words", tags=["important"], data={"owner": "ann"}),
        ]
    )
    # One section is edited where it stands, one is put in between, one goes.
    changed = text("welcome", "leave", "travel").replace("travel rule 3", "travel rule THREE") + section("safety")
    book.write_text(changed.replace("## Travel", section("parking") + "## Travel"))
    counts = ask.ingest(source=str(book))["counts"]
    assert counts["documents_changed"] == 1
    after = {one["name"]: one for one in chunks(ask)}
    assert "".join("".join(one["content"].split()) for one in chunks(ask)) == "".join(book.read_text().split())
    leave, travel = (after[f"Handbook of the shop › {name}"] for name in ("Leave", "Travel"))
    old_travel = before["Handbook of the shop › Travel"]
    assert leave["uri"] == before["Handbook of the shop › Leave"]["uri"]
    assert (travel["uri"], "THREE" in travel["content"]) == (old_travel["uri"], True)
    assert "about" in {relation["type"] for relation in travel["relations"]}
    assert after["Handbook of the shop › Parking"]["uri"] not in {one["uri"] for one in before.values()}
    (node,) = ask.get(uris=BOOK, include=[])["nodes"]
    assert (node["summary"], node["tags"], node["data"]["owner"]) == ("Ann's own words", ["important"], "ann")
    gone = before["Handbook of the shop › Expenses"]["uri"]
    assert gone in {one["uri"] for one in after.values()} or ws.node(gone) is None

    book.write_text(text("welcome"))
    ask.ingest(source=str(book))
    assert {one["uri"] for one in chunks(ask)} | {BOOK} == set(ws.text().by_source("file", "handbook.md"))


def test_links_tags_and_paths_in_a_text_become_relations_and_leave_with_it(ask: Ask, tmp_path: Path) -> None:
    ask.put(changes=[upsert("concept://shop/Key service"), upsert("entity://shop/ann")])
    folder = tmp_path / "notes"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.md").write_text(
        "---\ntitle: Alpha\ntags: [plan]\n---\n# Alpha\n\nSee [b](deep/b.md), [[Key service]], `src/auth/session.py`, "
        "https://example.org/spec?x=1. Ask @ann or @zoe. #urgent is a tag, not a [link](http:x) nor [[Nowhere]].\n"
    )
    (folder / "deep" / "b.md").write_text("Back to [[a]] and [up](../a.md#alpha); out of it: [no](../../secret.md).\n")
    ask.ingest(source=str(folder))
    (node,) = ask.get(uris="document://shop/notes/a.md")["nodes"]
    assert (node["name"], sorted(node["tags"])) == ("Alpha", ["plan", "urgent"])

    def linked(document: str) -> set[str]:
        return {r["target"] for one in chunks(ask, document) for r in one["relations"] if r["type"] == "links_to"}

    assert linked("document://shop/notes/a.md") == {
        "document://shop/notes/deep/b.md",
        "concept://shop/Key service".replace(" ", "%20"),
        "file://shop/src/auth/session.py",
        "https://example.org/spec?x=1",
        "entity://shop/ann",
    }
    assert linked("document://shop/notes/deep/b.md") == {"document://shop/notes/a.md"}
    (folder / "a.md").write_text("# Alpha\n\nNothing of it is left but `src/checkout.py`.\n")
    ask.ingest(source=str(folder))
    assert linked("document://shop/notes/a.md") == {"file://shop/src/checkout.py"}
    assert ask.get(uris="document://shop/notes/a.md")["nodes"][0].get("tags", []) == []


@pytest.mark.slow
def test_a_folder_is_ingested_without_ignored_files_and_other_formats(ask: Ask, tmp_path: Path) -> None:
    folder = tmp_path / "handbook"
    for name in (
        "a.md",
        "sub/b.txt",
        "c.html",
        "d.py",
        "drafts/x.md",
        ".hidden/y.md",
        ".secret.md",
        "image.png",
        "data.json",
        "node_modules/z.md",
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"What {name} says is not very long.\n")
    (folder / ".gitignore").write_text("drafts/\n")
    (folder / "loop").symlink_to(folder)
    (folder / "link.md").symlink_to(folder / "a.md")
    for name in ("another.png", "Makefile"):
        (folder / name).write_bytes(b"nothing to read")
    git(folder, "init", "-q")
    trial = ask.ingest(source=str(folder), dry_run=True)
    assert (trial["dry_run"], trial["counts"]["documents_new"]) == (True, 4)
    assert ask.get(uris="document://shop/handbook/a.md")["missing"]
    answer = ask.ingest(source=str(folder))
    assert sorted(uri.removeprefix("document://shop/handbook/") for uri in answer["nodes"]) == [
        "a.md",
        "c.html",
        "d.py",
        "sub/b.txt",
    ]
    assert any("symbolic link" in line for line in answer["trouble"])
    assert any("not a document by name: 2 .png, 1 .json, 1 without a suffix" in line for line in answer["trouble"])
    other = tmp_path / "other" / "handbook"
    other.mkdir(parents=True)
    (other / "a.md").write_text("Something else altogether, by others.\n")
    with pytest.raises(InvariantViolation, match="another place"):
        ask.ingest(source=str(other))
    assert ask.ingest(source=str(other), uri="document://shop/theirs")["nodes"] == ["document://shop/theirs/a.md"]


def test_a_text_is_named_by_its_url_its_uri_or_its_beginning(ask: Ask, ws: Workspace) -> None:
    page = ask.ingest(text="# Guide\n\nHow to pay.\n", uri="https://docs.example.org/pay/guide?v=2")
    assert page["nodes"] == ["document://shop/docs.example.org/pay/guide"]
    (node,) = ask.get(uris=page["nodes"])["nodes"]
    assert node["data"]["url"] == "https://docs.example.org/pay/guide?v=2"
    assert node["source"] == {"type": "url", "id": "https://docs.example.org/pay/guide?v=2"}
    assert ask.ingest(text="Plain words.", uri="document://shop/mine")["nodes"] == ["document://shop/mine"]
    assert ask.ingest(text="# Release plan\n\nFirst this.\n")["nodes"] == ["document://shop/Release%20plan"]
    tip = ws.tip
    assert ask.ingest(text="# Release plan\n\nFirst this.\n")["counts"] == {"documents_unchanged": 1}
    assert ws.tip == tip
    for wrong in (
        {"text": "  \n"},
        {"text": "x", "source": "y"},
        {"text": "x", "kind": "tree"},
        {"text": "x", "kind": "film"},
        {"text": "words", "uri": "concept://shop/a"},
        {"text": "words", "uri": "document://elsewhere/a"},
        {"source": "https://example.org/x"},
        {"source": "\0"},
        {"source": "/proc/self/mem"},
    ):
        with pytest.raises((Invalid, NotFound)):
            ask.ingest(**wrong)
        assert ws.tip == tip


def test_lines_that_look_like_secrets_are_left_out_and_told_of(ask: Ask, ws: Workspace, tmp_path: Path) -> None:
    path = tmp_path / "setup.md"
    secret = "AKIA" + "ABCDEFGHIJKLMNOP"
    path.write_text(f"# Setup\n\nUse this one:\n\n{secret}\n\nThen begin.\n")
    answer = ask.ingest(source=str(path))
    assert any("secret" in line for line in answer["trouble"])
    kept = " ".join(one["content"] for one in chunks(ask, "document://shop/setup.md"))
    assert secret not in kept
    assert "Then begin." in kept


def test_a_document_moved_or_written_by_a_user_is_respected(ask: Ask, ws: Workspace, book: Path) -> None:
    ask.ingest(source=str(book))
    ask.put(changes=[{"op": "move", "uri": BOOK, "to": "document://shop/rules/main"}])
    book.write_text(text("welcome", "leave", "travel", "expenses", "safety"))
    assert ask.ingest(source=str(book))["nodes"] == ["document://shop/rules/main"]
    own = book.with_name("own.md")
    own.write_text("What the file says is this.\n")
    ask.put(changes=[upsert("document://shop/own.md", name="By hand")])
    with pytest.raises(KgdError, match="comes from another source"):
        ask.ingest(source=str(own))
    node = ws.node(ask.get(uris="document://shop/own.md")["nodes"][0]["uri"])
    assert node is not None
    assert node.name == "By hand"


def test_an_agent_ingests_neither_hidden_nor_ignored_files(ask: Ask, code: Path, tmp_path: Path) -> None:
    agent = Ask(replace(ask.session, by_agent=True))
    (code / ".gitignore").write_text("*.local.md\n")
    until(lambda: ask.get(uris="./.gitignore")["nodes"])
    hidden = tmp_path / "elsewhere/.ssh/notes.md"
    hidden.parent.mkdir(parents=True)
    ignored, plain = code / "keys.local.md", tmp_path / "elsewhere/plain.md"
    for file in (hidden, ignored, plain):
        file.write_text("# Notes\n\nThe key is below the third stone.\n")
    for file in (hidden, hidden.parent, ignored):
        with pytest.raises(Forbidden, match="kgd ingest"):
            agent.ingest(source=str(file))
        assert agent.search(query="third stone")["hits"] == []
    assert agent.ingest(source=str(plain))["nodes"]
    assert ask.ingest(source=str(hidden))["nodes"], "a person may"


def test_the_summary_is_the_first_sentence_though_it_follows_its_heading_at_once(ask: Ask, book: Path) -> None:
    book.write_text("# Leave\nWho works here needs rest now and then. So take it.\n## How many days\nThirty of them.\n")
    ask.ingest(source=str(book))
    (node,) = ask.get(uris=BOOK)["nodes"]
    assert node["summary"] == "Who works here needs rest now and then."
