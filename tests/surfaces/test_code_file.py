"""`code_file`: the text of a file, with the knowledge about its lines."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kgd.code_history.history import CodeHistory
from kgd.errors import Invalid, NotFound
from kgd.git.code_log import LARGEST
from kgd.model.access import Principal, Scope
from kgd.model.change import Author
from kgd.tools.context import code_file
from kgd.tools.context.code_file import CODE_FILE
from kgd.tools.session import Session
from kgd.workspace.proposals import deciding, proposals
from kgd.workspace.workspace import Workspace
from tests.access.test_proposals import commit_on
from tests.surfaces.conftest import Ask, ask, code, daemon, git, session, upsert, ws
from tests.waiting import until

__all__ = ["ask", "code", "daemon", "session", "ws"]

KEYS = "src/auth/keys.py"
TEXT = "import os\n\n\ndef sign(token):\n    return token\n\n\nclass Keys:\n    def rotate(self):\n        pass\n"


@pytest.fixture
def keys(code: Path, ask: Ask) -> Path:
    (code / KEYS).write_text(TEXT)
    git(code, "commit", "-qam", "Rotate keys")
    return code


def test_a_page_of_lines_has_the_commit_and_the_number_of_all_lines(ask: Ask, keys: Path) -> None:
    answer = ask.code_file(uri=f"./{KEYS}", first=4, limit=2)
    assert (answer["state"], answer["text"]) == ("text", "def sign(token):\n    return token")
    assert (answer["first"], answer["lines"], answer["path"]) == (4, 10, KEYS)
    assert git(keys, "rev-parse", "HEAD").startswith(answer["commit"]["commit"])
    assert answer["commit"]["what"] == "Rotate keys"
    assert "changed" not in answer
    (keys / KEYS).write_text(f"# new\n{TEXT}")
    again = ask.code_file(uri=f"file://shop/{KEYS}", limit=1)
    assert (again["text"], again["changed"]) == ("# new", True)
    bare = ask.code_file(uri=f"./{KEYS}", limit=0)
    assert (bare["state"], bare["notes"]) == ("text", [])
    assert bare.keys().isdisjoint({"text", "lines", "symbols"})


def test_notes_have_the_lines_of_the_definitions_that_they_cite(ask: Ask, keys: Path) -> None:
    ask.put(
        changes=[
            upsert("gotcha:rotate", summary="Keys rotate daily.", data={"cites": [f"{KEYS}#Keys.rotate"]}),
            upsert("gotcha:sign", summary="Signing is slow.", data={"cites": [f"{KEYS}#sign", f"{KEYS}#gone"]}),
            upsert("insight:file", summary="An old file.", relations=[{"type": "about", "target": f"./{KEYS}"}]),
            upsert("insight:other", summary="Elsewhere.", data={"cites": ["src/checkout.py"]}),
        ]
    )
    until(lambda: len(ask.code_file(uri=f"./{KEYS}")["notes"]) == 3)
    signing, rotating, about = ask.code_file(uri=f"./{KEYS}")["notes"]
    assert signing["places"] == [{"symbol": "gone"}, {"symbol": "sign", "first": 4, "last": 5}]
    assert rotating["places"] == [{"symbol": "Keys.rotate", "first": 9, "last": 10}]
    assert (signing["why"], about["why"], about["places"]) == ("cites", "about", [])
    assert about["updated"]["by"].startswith("Ann Person")
    (keys / KEYS).write_text(f"# new\n{TEXT}".replace("return token", "return str(token)"))
    until(lambda: "unverified" in ask.code_file(uri=f"./{KEYS}")["notes"][0])
    assert ask.code_file(uri=f"./{KEYS}")["notes"][0]["places"][1]["first"] == 5


def test_facts_about_a_folder_above_and_open_tasks_with_the_file_are_notes(ask: Ask, keys: Path) -> None:
    def task(name: str, file: str, status: str) -> dict[str, Any]:
        sections = [{"title": "Context Files", "content": f"- `{file}` - the handlers"}]
        return upsert(f"task:{name}", type="task", data={"status": status, "sections": sections})

    ask.put(
        changes=[
            upsert("gotcha:lock", summary="Hold no lock.", relations=[{"type": "about", "target": "./src/auth"}]),
            upsert("gotcha:top", summary="Be kind.", relations=[{"type": "about", "target": "."}]),
            task("renew", f"./{KEYS}", "pending"),
            task("renewed", KEYS, "completed"),
            task("other", "src/auth/session.py", "pending"),
        ]
    )
    notes = {one["uri"]: one["why"] for one in ask.code_file(uri=f"./{KEYS}")["notes"]}
    assert notes == {"gotcha://shop/lock": "about src/auth/", "task://shop/renew": "lists the file under Context Files"}


@pytest.mark.slow
def test_a_relation_to_a_definition_is_a_note_about_its_lines(ask: Ask, keys: Path) -> None:
    until(lambda: ask.code_file(uri=f"./{KEYS}")["symbols"])
    symbol = f"symbol://shop/{KEYS}/sign"
    ask.put(changes=[upsert("insight:s", summary="Fast.", relations=[{"type": "explains", "target": symbol}])])
    (note,) = ask.code_file(uri=f"./{KEYS}")["notes"]
    assert (note["why"], note["places"]) == ("explains", [{"symbol": "sign", "first": 4, "last": 5}])
    outline = [
        (one["name"], one["kind"], one["first"], one["last"]) for one in ask.code_file(uri=f"./{KEYS}")["symbols"]
    ]
    assert outline == [("sign", "function", 4, 5), ("Keys", "class", 8, 10), ("Keys.rotate", "method", 9, 10)]


def test_a_changed_citation_is_shown_at_once(ask: Ask, keys: Path) -> None:
    assert keys.is_dir()
    ask.put(changes=upsert("gotcha:a", data={"cites": [f"{KEYS}#sign"]}))
    until(lambda: ask.code_file(uri=f"./{KEYS}")["notes"])
    for symbol in ("Keys.rotate", "sign", "Keys"):
        ask.put(changes=upsert("gotcha:a", data={"cites": [f"{KEYS}#{symbol}"]}))
        (note,) = ask.code_file(uri=f"./{KEYS}")["notes"]
        assert [place["symbol"] for place in note["places"]] == [symbol]
    ask.put(changes=upsert("gotcha:a", data={"cites": ["src/checkout.py"]}))
    assert ask.code_file(uri=f"./{KEYS}")["notes"] == []


def test_notes_beyond_the_limit_are_counted_once(ask: Ask, keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert keys.is_dir()
    monkeypatch.setattr(code_file, "NOTES", 1)
    about = [{"type": "about", "target": f"./{KEYS}"}]
    ask.put(changes=[upsert(f"gotcha:{name}", data={"cites": [KEYS]}, relations=about) for name in ("a", "b", "c")])
    until(lambda: ask.code_file(uri=f"./{KEYS}").get("more_notes") == 2)
    assert [note["why"] for note in ask.code_file(uri=f"./{KEYS}")["notes"]] == ["cites"]


def test_a_deleted_file_has_the_text_of_its_last_version(ask: Ask, keys: Path, ws: Workspace) -> None:
    (keys / KEYS).unlink()
    gone = ask.code_file(uri=f"./{KEYS}")
    assert (gone["state"], gone["text"], gone["changed"]) == ("deleted", TEXT.removesuffix("\n"), True)
    git(keys, "commit", "-qam", "Drop keys")
    CodeHistory.of(ws).update()
    gone = ask.code_file(uri=f"./{KEYS}")
    assert (gone["state"], gone["text"]) == ("deleted", TEXT.removesuffix("\n"))
    assert (gone["commit"]["what"], "changed" in gone) == ("Drop keys", False)
    assert ask.code_file(uri="./never.py")["state"] == "absent"


def test_files_that_cannot_be_shown_have_a_state_and_no_text(ask: Ask, code: Path) -> None:
    (code / "huge.txt").write_text("x" * (LARGEST + 1))
    (code / "link.py").symlink_to("src/checkout.py")
    (code / "out").symlink_to("/etc")
    (code / ".gitignore").write_text("secret.env\n")
    (code / "secret.env").write_text("KEY=1\n")
    (code / "empty.py").write_text("")
    (code / "locked.py").write_text("x = 1\n")
    (code / "locked.py").chmod(0)
    found = {path: ask.code_file(uri=f"file://shop/{path}") for path in ("logo.bin", "huge.txt", "link.py", "empty.py")}
    assert {path: (one["state"], one.get("text")) for path, one in found.items()} == {
        "logo.bin": ("binary", None),
        "huge.txt": ("large", None),
        "link.py": ("link", "src/checkout.py"),
        "empty.py": ("text", ""),
    }
    assert ask.code_file(uri="file://shop/secret.env")["state"] == "ignored"
    assert ask.code_file(uri="file://shop/.git/config")["state"] == "ignored"
    assert ask.code_file(uri="file://shop/out/passwd")["state"] == "absent"
    assert ask.code_file(uri="file://shop/src")["state"] == "absent"
    if os.geteuid():
        assert ask.code_file(uri="file://shop/locked.py")["state"] == "unreadable"
    with pytest.raises(Invalid, match="not a file of the code"):
        ask.code_file(uri="concept://shop/a")


def holder(session: Session, *globs: str) -> Session:
    scope = Scope.of("shop", ["read"], list(globs))
    principal = Principal("tok1", "Bob", "person", (scope,))
    return replace(session, principal=principal)


def asked(session: Session, path: str) -> dict[str, Any]:
    return dict(CODE_FILE.call(session, {"uri": f"file://shop/{path}"}))


def test_a_token_sees_the_committed_code_only_if_the_policy_shows_its_history(
    ask: Ask, keys: Path, ws: Workspace, session: Session
) -> None:
    ask.put(changes=[upsert("gotcha:sign", summary="Slow.", data={"cites": [f"{KEYS}#sign"]})])
    until(lambda: ask.code_file(uri=f"./{KEYS}")["notes"])
    (keys / KEYS).write_text("SECRET = 1\n")
    bob = holder(session, "/**")
    for path in (KEYS, "never.py"):
        withheld = asked(bob, path)
        assert (withheld["state"], withheld.keys() & {"text", "lines", "commit", "symbols"}) == ("withheld", set())
    (note,) = asked(bob, KEYS)["notes"]
    assert note["places"] == [{"symbol": "sign"}]
    settings = ws.store.read(ws.store.entry(ws.store.tree_of(bytes.fromhex(ws.tip)), "kgd.yaml") or b"").decode()
    commit = commit_on(ws, ws.tip, ("kgd.yaml", f"{settings}policy:\n- paths: [/**]\n  code_history: [people]\n"))
    git(ws.layout.git_dir, "update-ref", "refs/heads/proposals/p", commit)
    deciding.accept(ws, proposals.named(ws, "p"), Author("ann", "ann@example.org"))
    shown = asked(bob, KEYS)
    assert (shown["state"], shown["text"]) == ("text", TEXT.removesuffix("\n"))
    assert shown["notes"][0]["places"] == [{"symbol": "sign", "first": 4, "last": 5}]
    with pytest.raises(NotFound):
        asked(holder(session, "/docs/**"), KEYS)
