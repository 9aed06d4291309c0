"""A vault of notes is imported, stays unchanged, and is exported with the same bytes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from kgd.errors import Invalid, NotFound
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.tools import exchange
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, upsert

pytestmark = pytest.mark.slow

NOTES = {
    "Home.md": "---\ntitle: Start here\ntags: [index, Team/Web]\naliases: [Start]\n---\n# Home\n\nWhat we know.\n\n"
    "See [[Payments]] and [[Payments#Webhooks|the webhooks]], ![[assets/flow.png]] and #todo.\n",
    "areas/Payments.md": '---\nstatus: done\nup: "[[Home]]"\ncount: 3\nempty:\n---\nStripe retries for three days.\n'
    "![[Retry policy]]\n[back](../Home.md) `[[not a link]]` https://x.example/#no-tag\n",
    "areas/Retry policy.md": "Backs off. [[Missing note]] [[missing NOTE]] [[Start]]\n",
    "crlf.md": "---\r\ntags:\r\n- windows\r\n---\r\nLine one\r\nLine two",
    "broken.md": "---\ntags: [never, closed\nstatus: x\n---\nThe text is good.\n",
    "empty.md": "",
    "Zürich.md": "\ufeffGrüezi\n",
    ".obsidian/app.json": "{}",
    "assets/flow.png": "not text",
}


def lay(root: Path, notes: dict[str, str] = NOTES) -> Path:
    for name, text in notes.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return root


def bytes_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.md")}


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    return lay(tmp_path / "notes")


def at(ws: Workspace, uri: str) -> Node:
    node = ws.node(Uri(uri))
    assert node is not None
    return node


def take(ask: Ask, source: Path, **options: Any) -> Any:
    return ask.__getattr__("import")(source=str(source), **options)


def test_a_note_is_a_concept_with_tags_data_and_relations(ask: Ask, ws: Workspace, vault: Path) -> None:
    answer = take(ask, vault)
    assert answer["format"] == "vault"
    assert answer["nodes"] == {"new": 7, "changed": 0, "unchanged": 0, "kept": 0}
    assert len(answer["commits"]) == 1
    home = at(ws, "concept://shop/Home")
    assert (home.name, home.summary, home.tags) == ("Start here", "What we know.", ("Team/Web", "index", "todo"))
    assert home.data["aliases"] == ["Start"]
    assert [(r.type, r.target) for r in home.relations] == [("links_to", "concept://shop/areas/Payments")]
    payments = at(ws, "concept://shop/areas/Payments")
    assert payments.data["status"] == "done"
    assert payments.data["count"] == 3
    assert "empty" not in payments.data
    assert [(r.type, r.target, r.weight) for r in payments.relations] == [
        ("embeds", "concept://shop/areas/Retry%20policy", 0.5),
        ("links_to", "concept://shop/Home", 0.5),
        ("up", "concept://shop/Home", 1.0),
    ]
    policy = at(ws, "concept://shop/areas/Retry%20policy")
    assert [r.target for r in policy.relations] == ["concept://shop/Home", "concept://shop/Missing%20note"]
    assert at(ws, "concept://shop/crlf").content == "Line one\r\nLine two"


def test_skipped_notes_are_reported_line_by_line(ask: Ask, vault: Path) -> None:
    (vault / "latin.md").write_bytes(b"caf\xe9\n")
    (vault / "huge.md").write_text("x" * 300_000)
    (vault / "leads away.md").symlink_to("/etc/passwd")
    (vault / "secret.md").write_text("password = 9f8A7c6B5d4E3f2A1b0C9d8E7f\n")
    (vault / "home.md").write_text("a twin of Home\n")
    troubles = {t["at"]: t["reason"] for t in take(ask, vault)["troubles"]}
    assert "invalid front matter" in troubles["broken.md:3"]
    assert "not UTF-8" in troubles["latin.md:1"]
    assert "larger than 256 KiB" in troubles["huge.md"]
    assert "symbolic link" in troubles["leads away.md"]
    assert "secret" in troubles["secret.md"]
    assert "only in letter case" in troubles["home.md"]
    assert "1 .png" in troubles[""]


def test_a_second_import_changes_nothing_and_an_export_gives_the_same_bytes(
    ask: Ask, ws: Workspace, vault: Path, tmp_path: Path
) -> None:
    take(ask, vault)
    tip = ws.tip
    again = take(ask, vault)
    assert (again["commits"], again["nodes"]["unchanged"], ws.tip) == ([], 7, tip)
    out = ask.export(target=str(tmp_path / "out"), format="vault")
    assert bytes_of(tmp_path / "out") == bytes_of(vault)
    assert out["files"]["new"] == 7
    assert ask.export(target=str(tmp_path / "out"), format="vault")["files"]["unchanged"] == 7


def test_an_edit_there_is_taken_and_an_edit_here_stays(ask: Ask, ws: Workspace, vault: Path) -> None:
    take(ask, vault)
    (vault / "Home.md").write_text("---\ntags: [index]\n---\nNew text about [[Zürich]].\n")
    ask.put(changes=[upsert("areas/Payments", tags=["mine"])])
    answer = take(ask, vault)  # of another note too: what linked to an alias of Home now leads nowhere
    assert answer["nodes"] == {"new": 0, "changed": 2, "unchanged": 5, "kept": 0}
    home = at(ws, "concept://shop/Home")
    assert (home.content, home.tags, home.name) == ("New text about [[Zürich]].\n", ("index",), "Home")
    assert "aliases" not in home.data
    assert [r.target for r in home.relations] == ["concept://shop/Zürich"]
    assert "mine" in at(ws, "concept://shop/areas/Payments").tags
    (vault / "areas/Payments.md").write_text("Changed there as well.\n")
    both = take(ask, vault)
    assert both["nodes"]["kept"] == 1
    assert "changed here and in the source" in next(
        t["reason"] for t in both["troubles"] if t["at"] == "areas/Payments.md"
    )
    assert "mine" in at(ws, "concept://shop/areas/Payments").tags
    assert take(ask, vault, replace=True)["nodes"]["changed"] == 1
    assert at(ws, "concept://shop/areas/Payments").content == "Changed there as well.\n"


def test_only_the_changed_parts_of_a_note_are_written(ask: Ask, vault: Path, tmp_path: Path) -> None:
    take(ask, vault)
    ask.put(
        changes=[
            upsert("Home", tags=["mine"], data={"owner": "ann"}),
            {"op": "untag", "uri": "Home", "tags": ["index"]},
        ]
    )
    ask.export(target=str(tmp_path / "out"), format="vault")
    text = (tmp_path / "out/Home.md").read_text()
    head, _, body = text.removeprefix("---\n").partition("---\n")
    assert head.splitlines() == [
        "title: Start here",
        "tags:",
        "- Team/Web",
        "- mine",
        "aliases:",
        "- Start",
        "owner: ann",
    ]
    assert body == NOTES["Home.md"].split("---\n")[2]


def test_a_dry_run_says_all_and_writes_nothing(ask: Ask, ws: Workspace, vault: Path, tmp_path: Path) -> None:
    tip = ws.tip
    answer = take(ask, vault, dry_run=True)
    assert answer["nodes"]["new"] == 7
    assert answer["dry_run"]
    assert answer["troubles"]
    assert ws.tip == tip
    assert ws.node(Uri("concept://shop/Home")) is None
    take(ask, vault)
    told = ask.export(target=str(tmp_path / "out"), format="vault", dry_run=True)
    assert told["files"]["new"] == 7
    assert not (tmp_path / "out").exists()


def test_a_file_that_a_person_wrote_is_never_overwritten(ask: Ask, vault: Path) -> None:
    take(ask, vault)
    (vault / "Home.md").write_text("written since\n")
    ask.put(changes=[upsert("crlf", tags=["mine"])])
    answer = ask.export(target=str(vault), format="vault")
    assert (answer["files"]["left"], answer["files"]["unchanged"]) == (2, 5)
    assert (vault / "Home.md").read_text() == "written since\n"


def test_a_file_that_kgd_wrote_is_kept_up_until_a_person_edits_it(ask: Ask, tmp_path: Path) -> None:
    ask.put(changes=[upsert("auth", content="Version one.\n")])
    out = tmp_path / "out"
    ask.export(target=str(out), format="vault")
    ask.put(changes=[{"op": "append", "uri": "auth", "text": "And two."}])
    assert ask.export(target=str(out), format="vault")["files"]["changed"] == 1
    assert "And two." in (out / "auth.md").read_text()
    (out / "auth.md").write_text("mine now\n")
    assert ask.export(target=str(out), format="vault")["files"]["left"] == 1


def test_nodes_of_every_kind_go_through_a_vault_and_back(ask: Ask, ws: Workspace, tmp_path: Path) -> None:
    ask.put(
        changes=[
            upsert(
                "decision:use-git",
                name="Use git",
                summary="git is the truth",
                content="It merges.\n",
                tags=["vcs"],
                data={"status": "accepted", "cost": 1.5},
            ),
            upsert(
                "auth",
                content="Sessions [[x]].\n",
                relations=[
                    {"type": "depends_on", "target": "decision:use-git", "weight": 0.25, "data": {"why": "history"}},
                    {"type": "title", "target": "missing"},
                ],
            ),
        ]
    )
    out = tmp_path / "out"
    ask.export(target=str(out), format="vault")
    assert "[[decisions/use-git]]" in (out / "auth.md").read_text()
    before = {uri: at(ws, uri) for uri in ("decision://shop/use-git", "concept://shop/auth")}
    tip = ws.tip
    again = take(ask, out)
    assert (again["nodes"]["unchanged"], ws.tip, again["troubles"]) == (2, tip, [])
    (out / "auth.md").write_text((out / "auth.md").read_text() + "Added in the vault.\n")
    assert take(ask, out)["nodes"]["changed"] == 1
    assert at(ws, "concept://shop/auth").content.endswith("Added in the vault.\n")
    assert at(ws, "concept://shop/auth").relations == before["concept://shop/auth"].relations
    assert at(ws, "decision://shop/use-git") == before["decision://shop/use-git"]
    theirs = tmp_path / "theirs"  # the same out of a workspace of another name
    for path in out.rglob("*.md"):
        (theirs / path.relative_to(out)).parent.mkdir(parents=True, exist_ok=True)
        (theirs / path.relative_to(out)).write_text(
            path.read_text().replace("://shop/", "://attic/").replace("://attic/missing", "://shop/missing")
        )
    tip = ws.tip
    assert (take(ask, theirs)["nodes"]["unchanged"], ws.tip) == (2, tip)
    (out / "Mine.md").write_text("Because of [[use-git]].\n")
    take(ask, out)
    assert [r.target for r in at(ws, "concept://shop/Mine").relations] == ["decision://shop/use-git"]


def many(count: int, seed: int = 7) -> dict[str, str]:
    """Notes as people write them, one in fifty with broken front matter."""
    chance = random.Random(seed)
    words = ["retry", "webhook", "stripe", "Zürich", "cache", "ledger", "session", "token", "日本", "queue"]
    notes = {}
    for n in range(count):
        head = ""
        if n % 50 == 49:
            head = "---\ntags: [open\n---\n"
        elif n % 3:
            tags = f"[{chance.choice(words[:3])}, t{n % 7}]"
            head = f"---\ntags: {tags}\ndate: 2024-01-{n % 28 + 1:02}\ndone: true # x\n---\n"
        links = " ".join(f"[[n{chance.randrange(count)}]]" for _ in range(chance.randrange(4)))
        text = " ".join(chance.choices(words, k=chance.randrange(5, 60)))
        notes[f"d{n % 17}/e{n % 5}/n{n}.md"] = f"{head}# {chance.choice(words)}\n\n{text}\n{links}" + "\n" * (n % 3)
    return notes


def round_trip(ask: Ask, ws: Workspace, tmp_path: Path, count: int) -> Any:
    """The answer of the first import; a second one changes nothing, and an export gives the same bytes."""
    vault = lay(tmp_path / "many", many(count))
    answer = take(ask, vault)
    assert answer["nodes"]["new"] == count
    assert len(answer["troubles"]) == count // 50
    tip = ws.tip
    again = take(ask, vault)
    assert (again["nodes"]["unchanged"], again["commits"], ws.tip) == (count, [], tip)
    ask.export(target=str(tmp_path / "out"), format="vault")
    assert bytes_of(tmp_path / "out") == bytes_of(vault)
    return answer


def test_many_notes_survive_a_round_trip_in_commits_of_a_bounded_size(
    ask: Ask, ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "MAX_EDITS", 40)
    assert len(round_trip(ask, ws, tmp_path, 100)["commits"]) == 3


@pytest.mark.slow
@pytest.mark.parametrize("notes", [300, pytest.param(1000, marks=pytest.mark.large)])
def test_hundreds_of_notes_survive_a_round_trip(ask: Ask, ws: Workspace, tmp_path: Path, notes: int) -> None:
    assert len(round_trip(ask, ws, tmp_path, notes)["commits"]) == 1


def test_the_import_succeeds_without_the_bad_note(ask: Ask, ws: Workspace, tmp_path: Path) -> None:
    notes = many(40) | {"bad.md": "AKIAABCDEFGHIJKLMNOP\n", "worse.md": "token: 9f8A7c6B5d4E3f2A1b0C9d8E7f\n"}
    answer = take(ask, lay(tmp_path / "some", notes))
    assert (answer["nodes"]["new"], len(answer["commits"])) == (40, 1)
    assert sorted(t["at"] for t in answer["troubles"]) == ["bad.md", "worse.md"]


def test_notes_imported_below_a_path_do_not_collide_with_existing_nodes(ask: Ask, ws: Workspace, vault: Path) -> None:
    ask.put(changes=[upsert("Home", summary="ours")])
    first = take(ask, vault)
    assert first["nodes"]["kept"] == 1
    assert "did not come from the source" in next(t["reason"] for t in first["troubles"] if t["at"] == "Home.md")
    assert at(ws, "concept://shop/Home").summary == "ours"
    second = take(ask, vault, below="handbook")
    assert second["nodes"]["new"] == 7
    links = [r.target for r in at(ws, "concept://shop/handbook/Home").relations]
    assert links == ["concept://shop/handbook/areas/Payments"]


def test_a_source_that_is_nothing_is_refused(ask: Ask, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such file"):
        take(ask, tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(Invalid, match="not in a known format"):
        take(ask, tmp_path / "empty")
    with pytest.raises(Invalid, match="unknown format 'film'"):
        take(ask, tmp_path, format="film")


def test_an_exported_folder_is_left_alone_where_a_link_is_in_the_way(ask: Ask, vault: Path, tmp_path: Path) -> None:
    take(ask, vault)
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    elsewhere.mkdir()
    (out / "areas").symlink_to(elsewhere)
    answer = ask.export(target=str(out), format="vault")
    assert (answer["files"]["new"], answer["files"]["left"]) == (5, 2)
    assert list(elsewhere.iterdir()) == []


def test_no_node_puts_a_file_where_it_does_not_belong(ask: Ask, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / ".git").mkdir(parents=True)
    ask.put(
        changes=[
            upsert("one", source={"type": "vault", "id": "v/../../up.md"}),
            upsert("two", source={"type": "vault", "id": "v/.git/refs/x.md"}),
            upsert("concept:.git/hooks/three", summary="a name"),
            upsert("four", source={"type": "vault", "id": "v//etc/four.md"}),
            upsert("atom:five", source={"type": "rules", "id": "../.cursor/rules/x.mdc"}, data={"paths": ["a"]}),
            upsert(
                "insight:six", summary="s", detail="Text.", data={"orchestrator": {"file": "memories/../../six.md"}}
            ),
        ]
    )
    for name in ("vault", "rules", "orchestrator"):
        ask.export(target=str(out), format=name)
    assert list((out / ".git").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix) == []
    assert not (out / "etc").exists()
    assert [path.name[-6:] for path in (out / "memories").iterdir()] == ["six.md"]


def test_the_prose_of_a_memory_goes_through_a_vault_is_edited_there_and_comes_back(
    ask: Ask, ws: Workspace, tmp_path: Path
) -> None:
    prose = "    # indented\n\nTwo signers drifted apart in March.\n\n---\nno front matter"
    ask.put(
        changes=[
            upsert("decision:one-signer", summary="Only auth signs", detail=prose),
            upsert("gotcha:keys", summary="They rotate", content="Weekly.\n", detail="# Why\nAsk Ann."),
        ]
    )
    out = tmp_path / "out"
    assert ask.export(target=str(out), format="vault")["troubles"] == []
    note = out / "decisions" / "one-signer.md"
    assert note.read_text().endswith(f"---\n{prose}\n")
    assert take(ask, out)["nodes"]["unchanged"] == 2
    note.write_text(note.read_text().replace("March", "April"))
    (out / "gotchas" / "keys.md").write_text((out / "gotchas" / "keys.md").read_text().replace("Ann", "Bob"))
    assert take(ask, out)["nodes"]["changed"] == 2
    decision, gotcha = ask.get(uris=["decision:one-signer", "gotcha:keys"], include=["content"])["nodes"]
    assert decision["detail"]["text"].strip("\n") == prose.replace("March", "April")
    assert (gotcha["content"], gotcha["detail"]["text"].strip()) == ("Weekly.\n", "# Why\nAsk Bob.")
    assert take(ask, out)["nodes"]["unchanged"] == 2
