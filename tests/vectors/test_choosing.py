"""Only users choose the embedder, in their own settings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from kgd.config.entries import parse as parse_registry
from kgd.config.entries import parse_shared
from kgd.errors import Invalid, KgdError, Unavailable
from kgd.vectors.choosing import Choice, may_serve, parse
from kgd.vectors.configured import opened
from tests.builders import commit_file
from tests.vectors.conftest import Desk
from tests.vectors.models import Endpoint, serving

LOCAL = "http://127.0.0.1:11434/v1"
SOON = 60.0


@pytest.mark.parametrize(
    ("said", "choice"),
    [
        ("builtin", Choice()),
        ("off", Choice("off")),
        (False, Choice("off")),
        ({"kind": "builtin", "share": 0.5}, Choice(share=0.5)),
        (
            {"kind": "onnx", "dir": "~/models/small", "pooling": "cls"},
            Choice("onnx", dir="~/models/small", pooling="cls"),
        ),
        ({"kind": "fastembed", "model": "BAAI/small"}, Choice("fastembed", model="BAAI/small")),
        (
            {"kind": "openai", "url": LOCAL, "model": "nomic", "key": "env:KEY", "batch": 8, "seconds": 5},
            Choice("openai", url=LOCAL, model="nomic", key="env:KEY", batch=8, seconds=5),
        ),
    ],
)
def test_a_setting_is_read_back_as_written(said: Any, choice: Choice) -> None:
    assert parse(said) == choice
    assert Choice.read(choice.written()) == choice


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("best", "one of"),
        (7, "one of"),
        (None, "one of"),
        ([], "one of"),
        ({}, "one of"),
        ({"kind": ["onnx"]}, "one of"),
        ({"kind": "onnx"}, "needs 'dir'"),
        ({"kind": "onnx", "dir": "models"}, "absolute"),
        ({"kind": "onnx", "dir": "/m", "pooling": "max"}, "mean or cls"),
        ({"kind": "onnx", "dir": "/m", "url": LOCAL}, "'url' is not a field"),
        ({"kind": "openai", "url": LOCAL}, "needs 'model'"),
        ({"kind": "openai", "model": "m", "url": "http://example.org/v1"}, "address"),
        ({"kind": "openai", "model": "m", "url": "https://me:pw@example.org/v1"}, "address"),
        ({"kind": "openai", "model": "m", "url": LOCAL, "key": "sk-123"}, "must be a reference to a credential"),
        ({"kind": "openai", "model": "m", "url": LOCAL, "batch": 0.5}, "1 to 2048"),
        ({"kind": "openai", "model": "m", "url": LOCAL, "seconds": True}, "1 to 600"),
        ({"kind": "openai", "model": "m\n", "url": LOCAL}, "one line"),
        ({"kind": "openai", "model": 7, "url": LOCAL}, "one line"),
        ({"kind": "builtin", "share": 1.5}, "0 to 1"),
    ],
)
def test_an_invalid_choice_is_refused_and_names_the_field(said: Any, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        parse(said)


def test_the_registry_names_the_line_and_never_holds_a_credential() -> None:
    good = f'settings:\n  embedder: {{kind: openai, url: "{LOCAL}", model: m, key: "env:KEY"}}\n'
    assert parse_registry(good.encode(), "workspaces.yaml").settings.embedder.key == "env:KEY"
    assert parse_registry(b"settings:\n  embedder: off\n", "w").settings.embedder.kind == "off"
    for bad in (good.replace("env:KEY", "sk-123"), good.replace("env:KEY", "env:a b"), good.replace("kind", "king")):
        with pytest.raises(Invalid) as refused:
            parse_registry(bad.encode(), "workspaces.yaml")
        assert refused.value.at == "workspaces.yaml:2"
        assert "sk-123" not in str(refused.value)


def test_an_organisations_registry_cannot_choose() -> None:
    with pytest.raises(KgdError, match="not known here"):
        parse_shared(b"workspaces: {}\nsettings:\n  embedder: off\n")


@pytest.fixture
def endpoint() -> Any:
    yield from serving()


@pytest.mark.requirement("U6")
def test_a_workspace_cannot_choose_where_its_readers_texts_are_sent(desk: Desk, endpoint: Endpoint) -> None:
    ws = desk.open(follow=False)
    told = (ws.layout.work_tree / "kgd.yaml").read_text()
    chosen = f'embedder: {{kind: openai, url: "{endpoint.url}", model: m}}\n'
    commit_file(ws, "kgd.yaml", f"{told}{chosen}settings:\n  {chosen}")
    commit_file(ws, "nodes/concept/a.yaml", "uri: concept://ws/a\nname: A\ncontent: |\n  The kitten sleeps.\n")
    ws = desk.open()
    assert ws.meaning.catch_up(SOON)
    assert ws.meaning.nearest("cat", 1).hits
    assert ws.meaning.stage().about.startswith("builtin")
    assert not endpoint.asked


def test_a_missing_library_is_reported_with_its_install_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for kind, library, choice in (
        ("onnx", "onnxruntime", Choice("onnx", dir=str(tmp_path))),
        ("fastembed", "fastembed", Choice("fastembed", model="m")),
    ):
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(Unavailable, match=library) as missing:
            opened(choice, str)
        assert f".[{kind}]" in missing.value.next


def test_questions_go_on_to_a_replaced_endpoint_only_where_the_new_one_is_the_same() -> None:
    here, there = Choice("openai", url=LOCAL, model="a"), Choice("openai", url="https://example.org/v1", model="a")
    assert may_serve(Choice(), here)
    assert may_serve(here, Choice("openai", url=LOCAL, model="b"))
    assert not may_serve(there, here)
    assert not may_serve(there, Choice())
