"""Addresses of code that was written a moment ago: the file is read at once, so that no fact becomes wider."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from kgd.errors import NotFound, Unavailable
from kgd.model.uri import Uri
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, ask, code, daemon, session, upsert, ws

__all__ = ["ask", "code", "daemon", "session", "ws"]

TEXT = "def sign(token):\n    return token\n"
SIGN = "symbol://shop/src/new.py/sign"


def subject(ask: Ask, answer: Any) -> tuple[str, list[str]]:
    (relation,) = ask.get(uris=answer["nodes"][0]["uri"])["nodes"][0]["relations"]
    return relation["target"], answer["warnings"]


def written(code: Path) -> None:
    (code / "src/new.py").write_text(TEXT)


@pytest.mark.slow
def test_a_fact_about_a_symbol_of_a_new_file_is_about_the_symbol(ask: Ask, code: Path) -> None:
    written(code)
    assert subject(ask, ask.remember(text="Tokens are signed.", about=["src/new.py#sign"])) == (SIGN, [])


@pytest.mark.slow
def test_a_fact_about_a_line_of_a_new_file_is_about_the_symbol(ask: Ask, code: Path) -> None:
    written(code)
    target, warnings = subject(ask, ask.remember(text="Tokens are signed.", about=["src/new.py:2"]))
    assert (target, warnings) == (SIGN, ["is about src/new.py#sign, which contains line 2"])


@pytest.mark.slow
def test_a_citation_of_a_line_of_a_new_file_names_the_symbol(ask: Ask, code: Path) -> None:
    written(code)
    fact = ask.remember(text="Tokens are signed.", cites=["src/new.py:2"])
    assert fact["warnings"] == ["cites src/new.py#sign, which contains line 2"]


@pytest.mark.slow
def test_a_symbol_added_to_a_known_file_is_known_at_once(ask: Ask, code: Path) -> None:
    ask.get(uris="src/auth/keys.py")
    (code / "src/auth/keys.py").write_text(TEXT)
    node = ask.put(changes=upsert("a", relations=[{"type": "about", "target": "./src/auth/keys.py#sign"}]))
    assert subject(ask, node)[0] == "symbol://shop/src/auth/keys.py/sign"


@pytest.mark.slow
def test_a_symbol_of_a_new_file_is_an_address(ask: Ask, code: Path) -> None:
    written(code)
    assert ask.get(uris="src/new.py#sign")["nodes"][0]["uri"] == SIGN


def test_a_new_file_and_a_new_folder_are_no_concepts(ask: Ask, code: Path) -> None:
    (code / "lib").mkdir()
    (code / "lib/new.py").write_text(TEXT)
    assert subject(ask, ask.remember(text="It is new.", about=["lib/new.py"]))[0] == "file://shop/lib/new.py"
    (code / "more").mkdir()
    (code / "more/new.py").write_text(TEXT)
    assert subject(ask, ask.remember(text="It is newer.", about=["more/"]))[0] == "dir://shop/more"


@pytest.mark.slow
def test_a_new_file_has_facts_under_every_address_at_once(ask: Ask, code: Path) -> None:
    for number, address in enumerate(("./src/{}", str(code / "src/{}"), "file://shop/src/{}", "file:src/{}")):
        (code / f"src/new{number}.py").write_text(TEXT)
        about = address.format(f"new{number}.py")
        fact = ask.remember(text=f"Number {number} is new.", about=[about])
        assert subject(ask, fact)[0] == f"file://shop/src/new{number}.py"


@pytest.mark.slow
def test_a_line_of_a_new_version_has_the_facts_about_its_symbol(ask: Ask, code: Path) -> None:
    written(code)
    fact = ask.remember(text="Tokens are signed.", about=["src/new.py#sign"])["nodes"][0]["uri"]
    (code / "src/new.py").write_text("import os\n\n\n" + TEXT)
    items = {one["uri"]: one.get("on_line") for one in ask.context(paths=["src/new.py:5"])["items"]}
    assert items == {fact: True}
    places = {one["uri"]: one["places"] for one in ask.code_file(uri="./src/new.py")["notes"]}
    assert places == {fact: [{"symbol": "sign", "first": 4, "last": 5}]}


def test_an_ignored_file_is_not_read_for_an_address(ask: Ask, code: Path, ws: Workspace) -> None:
    (code / ".gitignore").write_text("src/new.py\n")
    written(code)
    with pytest.raises(NotFound, match=r"the code tree has no src/new\.py"):
        ask.remember(text="Tokens are signed.", about=["./src/new.py#sign"])
    assert not ws.in_overlay(Uri(SIGN))


def test_a_call_is_refused_rather_than_widened_if_the_file_cannot_be_read_in_time(
    ask: Ask, code: Path, ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cast(Any, ws.overlay).inside, "catch_up", lambda path, within: False)
    for asked in ({"about": ["src/auth/keys.py#sign"]}, {"about": ["src/checkout.py:1"]}, {"cites": ["README.md:1"]}):
        with pytest.raises(Unavailable, match=r"the symbols of .* are not known yet"):
            ask.remember(text="Tokens are signed.", **asked)
