"""Every spelling of an address finds its node; answers have the canonical URI."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from kgd.daemon.daemon import Daemon
from kgd.errors import Invalid, KgdError, NotFound
from kgd.tools import addressing, call
from kgd.tools.session import Session
from kgd.ui.pages import history, node
from kgd.ui.sessions import Visitor
from kgd.ui.visit import Page, Visit
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, make_code, upsert
from tests.waiting import until


def resolve(session: Session, ws: Workspace, text: str) -> str:
    return addressing.resolve(session, ws, text)


MEANT = {
    "concept://shop/a/b": "concept://shop/a/b",
    "concept://shop/a b": "concept://shop/a%20b",
    "file://shop/docs/My File.md": "file://shop/docs/My%20File.md",
    "services/auth": "concept://shop/services/auth",
    "src/auth/keys.py": "file://shop/src/auth/keys.py",
    "src/auth": "dir://shop/src/auth",
    "src/": "dir://shop/src",
    "docs/My File.md": "file://shop/docs/My%20File.md",
    "./src/auth/keys.py": "file://shop/src/auth/keys.py",
    "./src": "dir://shop/src",
    "./not/yet.py": "file://shop/not/yet.py",
    ".": "dir://shop/_",
    "dir://shop/_": "dir://shop/_",
    "atom:checkout-page": "atom://shop/checkout-page",
    "decision:2026/use postgres": "decision://shop/2026/use%20postgres",
    "https://example.org/a?b#c": "https://example.org/a?b#c",
    "x.y-z+1://h/a": "x.y-z+1://h/a",
    "main.py:12": "concept://shop/main.py:12",
    "  services/auth ": "concept://shop/services/auth",
}


@pytest.mark.requirement("E2")
def test_every_spelling_finds_its_node(session: Session, ws: Workspace) -> None:
    assert {written: resolve(session, ws, written) for written in MEANT} == MEANT


def test_an_existing_concept_comes_before_the_file_of_that_path(ask: Ask, ws: Workspace) -> None:
    ask.put(changes=upsert("concept://shop/src/checkout.py", summary="what people say about it"))
    assert resolve(ask.session, ws, "src/checkout.py") == "concept://shop/src/checkout.py"
    assert resolve(ask.session, ws, "./src/checkout.py") == "file://shop/src/checkout.py"


def test_an_absolute_path_inside_the_tree_means_the_tree(session: Session, ws: Workspace, code: Path) -> None:
    assert resolve(session, ws, str(code / "src/checkout.py")) == "file://shop/src/checkout.py"
    assert resolve(session, ws, str(code)) == "dir://shop/_"


def test_a_file_url_inside_the_tree_means_the_tree(ask: Ask, ws: Workspace, code: Path) -> None:
    """MCP hosts write file addresses this way."""
    session = ask.session
    url = (code / "docs/My File.md").as_uri()
    assert url.startswith("file:///")
    assert resolve(session, ws, url) == "file://shop/docs/My%20File.md"
    assert resolve(session, ws, code.as_uri()) == "dir://shop/_"
    session.cwd, session.here = None, None
    assert ask.get(uris=url)["workspace"] == "shop"
    assert ask.remember(text="Spaces need quotes.", about=[url])["warnings"] == []
    with pytest.raises(Invalid, match="outside the code tree"):
        resolve(session, ws, "file:///etc/passwd")


@pytest.mark.parametrize("written", ["file://src/checkout.py", "dir://src/auth", "dir://src/auth/"])
def test_a_file_url_without_a_workspace_means_an_existing_file_and_warns(ask: Ask, ws: Workspace, written: str) -> None:
    found = written.replace("://", "://shop/").rstrip("/")
    relation = {"type": "about", "target": written}
    answer = ask.put(changes=upsert("note", relations=[relation]))
    assert [one["target"] for one in ask.get(uris="note")["nodes"][0]["relations"]] == [found]
    assert [found in warning for warning in answer["warnings"]] == [True]
    assert ask.get(uris=written)["nodes"][0]["uri"] == found
    assert len(ask.remember(text="It is slow.", about=written)["warnings"]) == 1


def test_a_known_workspace_comes_before_a_folder_of_its_name(ask: Ask, ws: Workspace, tmp_path: Path) -> None:
    registered = ws.is_registered
    ws.is_registered = lambda id: id == "src" or registered(id)
    assert addressing.spell(ask.session, ws, "file://src/checkout.py") == "file://src/checkout.py"
    ws.is_registered = registered
    ask.put(changes=upsert("note", relations=[{"type": "about", "target": "file://src/not/there.py"}]))
    assert ask.get(uris="note")["nodes"][0]["relations"][0]["target"] == "file://src/not/there.py"


def test_a_relative_path_starts_where_the_client_is(session: Session, ws: Workspace, code: Path) -> None:
    inner = replace(session, cwd=code / "src")
    assert resolve(inner, ws, "./auth/keys.py") == "file://shop/src/auth/keys.py"
    assert resolve(inner, ws, "../README.md") == "file://shop/README.md"
    assert resolve(inner, ws, "..") == "dir://shop/_"


@pytest.mark.slow
def test_a_bare_path_starts_where_the_client_is_if_only_that_directory_has_it(
    ask: Ask, ws: Workspace, code: Path
) -> None:
    inner = replace(ask.session, cwd=code / "src")
    assert resolve(inner, ws, "auth/keys.py") == "file://shop/src/auth/keys.py"
    assert resolve(inner, ws, "auth/") == resolve(inner, ws, "auth") == "dir://shop/src/auth"
    assert resolve(inner, ws, "README.md") == "file://shop/README.md", "the top of the tree comes first"
    assert resolve(inner, ws, "not/yet") == "concept://shop/not/yet"
    there = Ask(inner)
    there.remember(
        text="Keys rotate daily.", about=["auth/keys.py"], cites=["auth/keys.py#KEYS", "../README.md", "a book"]
    )
    fact = there.get(uris="insight:keys-rotate-daily")["nodes"][0]
    assert [relation["target"] for relation in fact["relations"]] == ["file://shop/src/auth/keys.py"]
    assert fact["data"]["cites"] == ["src/auth/keys.py#KEYS", "README.md", "a book"]
    for path in ("auth", "./auth", "src/auth", str(code / "src/auth")):
        assert there.coverage(path=path)["folder"]["path"] == "src/auth"
        assert [len(there.history(path=path)["commits"]), there.review(path=path)["commits"]] == [1, 1]


NOTHING = [
    "",
    "  ",
    "/etc/passwd",
    "../outside",
    "concept://shop/",
    "concept://shop/a/../b",
    "concept://shop/a//b",
    "concept://SHOP/a",
    "kgd://shop/status",
    "concept:",
    "file://shop/" + "a" * 300,
    "concept://shop/" + "a/" * 70 + "b",
]


def test_a_meaningless_address_is_refused_with_its_place(session: Session, ws: Workspace) -> None:
    for written in NOTHING:
        with pytest.raises(KgdError) as caught:
            addressing.resolve(session, ws, written, at="uris[0]")
        assert caught.value.code in ("VALIDATION_ERROR", "LIMIT", "NOT_FOUND"), written


def test_a_new_node_whose_address_had_a_blank_is_named_with_the_stored_address(ask: Ask, ws: Workspace) -> None:
    def put(uri: str) -> list[str]:
        return list(ask.put(changes=[{"op": "upsert", "uri": uri, "summary": uri}])["warnings"])

    assert put("bad uri !!") == [f"'bad uri !!' contains whitespace; it was stored as concept://{ws.id}/bad%20uri%20!!"]
    assert put("bad uri !! ") == []
    assert put("good-uri") == []


def test_paths_outside_and_inside_the_tree_are_distinguished(session: Session, ws: Workspace) -> None:
    with pytest.raises(Invalid, match="outside the code tree"):
        resolve(session, ws, "/etc/passwd")


def test_an_unknown_workspace_is_refused_with_the_likely_one(ask: Ask) -> None:
    with pytest.raises(NotFound) as caught:
        ask.get(uris="concept://shp/a")
    assert "'shop'" in caught.value.next
    with pytest.raises(NotFound) as caught:
        ask.get(uris="a", workspace="shops")
    assert caught.value.at == "workspace"


@pytest.mark.requirement("E8")
def test_a_target_in_an_unknown_workspace_is_kept_with_a_warning(ask: Ask) -> None:
    answer = ask.put(changes={"op": "relate", "source": "README.md", "target": "concept://other/x", "type": "see"})
    assert any("concept://other/x" in warning for warning in answer["warnings"])
    assert ask.get(uris="README.md")["nodes"][0]["relations"][0]["target"] == "concept://other/x"


def test_a_read_may_fall_back_to_the_only_workspace_but_a_write_never_guesses(session: Session, tmp_path: Path) -> None:
    elsewhere = replace(session, cwd=tmp_path, found=None)
    assert call(elsewhere, "get", {"uris": "README.md"})["workspace"] == "shop"
    with pytest.raises(NotFound) as caught:
        call(elsewhere, "put", {"changes": upsert("x", summary="y")})
    assert "kgd up" in caught.value.next


def test_with_two_workspaces_the_uri_decides_then_the_directory(session: Session, tmp_path: Path) -> None:
    other = replace(session, cwd=make_code(tmp_path / "other"), found=None)
    call(other, "up")
    assert call(other, "get", {"uris": "README.md"})["workspace"] == "other"
    assert call(other, "get", {"uris": "concept://shop/x"})["workspace"] == "shop"
    assert call(other, "status", {"workspace": "shop"})["workspace"]["id"] == "shop"
    assert call(other, "get", {"uris": str(tmp_path / "shop" / "README.md")})["nodes"][0]["uri"].startswith(
        "file://shop/"
    )
    with pytest.raises(NotFound, match="this directory has no workspace"):
        call(replace(other, cwd=tmp_path, found=None), "get", {"uris": "README.md"})


def test_a_bare_name_beside_a_foreign_uri_means_the_directorys_workspace(session: Session, tmp_path: Path) -> None:
    other = replace(session, cwd=make_code(tmp_path / "other"), found=None)
    call(other, "up")
    for one, id in ((session, "shop"), (other, "other")):
        call(one, "put", {"changes": [upsert("c", summary=f"of {id}"), upsert("d", summary=f"of {id}")]})
    for uris in (["c", "concept://other/d"], ["concept://other/d", "c"]):
        found = call(session, "get", {"uris": uris})["nodes"]
        assert {node["uri"] for node in found} == {"concept://shop/c", "concept://other/d"}
        with pytest.raises(Invalid, match="belongs to 'other'"):
            call(session, "put", {"changes": [{"op": "delete", "uri": uri} for uri in uris]})
    starts = {"start": ["c", "concept://other/d"], "max_cost": 0}
    assert {node["uri"] for node in call(session, "traverse", starts)["nodes"]} == {
        "concept://shop/c",
        "concept://other/d",
    }
    with pytest.raises(Invalid, match="belongs to 'other'"):
        call(
            session,
            "put",
            {
                "changes": [
                    {"op": "upsert", "type": "concept", "name": "new"},
                    {"op": "delete", "uri": "concept://other/c"},
                ]
            },
        )
    assert call(other, "get", {"uris": ["c", "d"]})["missing"] == []


@pytest.mark.slow
def test_a_node_is_not_moved_into_another_workspace(session: Session, tmp_path: Path, ws: Workspace) -> None:
    other = replace(session, cwd=make_code(tmp_path / "other"), found=None)
    call(other, "up")
    call(session, "put", {"changes": upsert("b", summary="stays")})
    with pytest.raises(Invalid, match="belongs to 'other'"):
        call(session, "put", {"changes": {"op": "move", "uri": "b", "to": "concept://other/moved"}})
    assert call(session, "get", {"uris": "b"})["nodes"][0]["summary"] == "stays"
    file = ws.layout.work_tree / "nodes/concept/foreign.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("uri: concept://other/foreign\n")

    def git(*words: str) -> bool:
        return subprocess.run(["git", "-C", str(ws.layout.work_tree), *words], check=False).returncode == 0

    until(lambda: git("add", "-A"))
    until(lambda: git("commit", "-qm", "a foreign node"))
    until(lambda: any(one.path == "nodes/concept/foreign.yaml" for one in ws.invalid_files()))
    assert "another workspace" in next(iter(ws.invalid_files())).reason


@pytest.mark.parametrize("unit", ["a", "1", "a:", "1:", "a:1", "1a:"])
def test_a_long_text_is_searched_for_a_line_number_in_linear_time(unit: str) -> None:
    """Quadratic time would exceed the time limit of a test; one call would stop a hub."""
    assert addressing.LINES_OF_FILE(unit * 500_000 + "\n") is None
    found = addressing.LINES_OF_FILE(unit * 500_000 + "b:7-9")
    assert found is not None
    assert (found["path"], found["first"], found["last"]) == (unit * 500_000 + "b", "7", "9")


@pytest.mark.parametrize("uri", ["services/auth", "concept:services/auth", "concept://shop/services/auth"])
def test_pages_about_a_node_take_a_short_address(ask: Ask, daemon: Daemon, uri: str) -> None:
    ask.put(changes=upsert("services/auth", name="Auth", content="Keys rotate.\n"))
    for make in (history.history, history.lines, history.messages, node.confirm_delete):
        visit = Visit(daemon, Visitor(), "shop", {"uri": uri}, {}, lambda _: [], {}, "/ui/w/shop/node")
        page = make(visit)
        assert isinstance(page, Page)
        assert [name for name, _ in page.told["way"]] == ["shop", "services", "Auth"]
