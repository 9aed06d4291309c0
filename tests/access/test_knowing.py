"""`context` for a token holder does not depend on unreadable nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kgd.freshness.code import id_of
from kgd.freshness.freshness import Freshness
from kgd.model.access import Principal, Scope
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, ask, code, daemon, session, upsert, ws

__all__ = ["ask", "code", "daemon", "session", "ws"]

KEYS = "src/auth/keys.py"


@pytest.fixture
def holder(session: Session) -> Ask:
    scope = Scope.of("shop", ["read", "write"], ["/pay/**"])
    principal = Principal("tok00001", "agent", "agent", (scope,))
    return Ask(Session(session.daemon, client="claude", principal=principal))


def test_a_holder_finds_readable_nodes_behind_any_number_of_hidden_nodes(ask: Ask, holder: Ask) -> None:
    hidden = [
        upsert(f"gotcha://shop/secret/{n}", summary="zebra webhook", tags=["zebra", "webhook"]) for n in range(60)
    ]
    mine = upsert("gotcha://shop/pay/mine", tags=["zebra"], content="A webhook of a zebra, told at great length. " * 9)
    ask.put(changes=[*hidden, mine])
    for question in ({"question": "zebra webhook"}, {"task": "handle the webhook of the zebra"}):
        assert [one["uri"] for one in holder.context(**question)["items"]] == ["gotcha://shop/pay/mine"]


def test_an_answer_reveals_no_hidden_directories_and_files(holder: Ask, code: Path) -> None:
    (code / "src" / "a,b.py").write_text("")

    def told(path: str) -> dict[str, Any]:
        return {key: holder.context(paths=[path])[key] for key in ("unmatched_paths", "items", "cut")}

    assert told("src")["unmatched_paths"] == ["src"]
    assert told("nowhere")["unmatched_paths"] == ["nowhere"]
    assert told("src/a,b.py")["unmatched_paths"] == ["src/a", "b.py"]


def test_the_order_does_not_reveal_the_content_of_a_hidden_file(
    ask: Ask, holder: Ask, session: Session, ws: Workspace, code: Path
) -> None:
    """Otherwise a holder could guess a file's content in a note and see whether the guess was right."""
    right = id_of((code / KEYS).read_bytes(), KEYS)[0]
    guesses = {"a": "0" * 12, "b": right}
    for name, id in guesses.items():
        holder.put(
            changes=[
                upsert(
                    f"gotcha://shop/pay/{name}",
                    summary="zebra",
                    data={"cites": [KEYS], "verified": {f"{KEYS}@{id}": True}},
                )
            ]
        )
    freshness = Freshness.of(ws)
    freshness.look_through()
    assert freshness.settle()
    assert freshness.doubted == {"gotcha://shop/pay/a"}
    for asked, order in ((ask, "ba"), (holder, "ab")):
        found = [one["uri"] for one in asked.context(task="task of a zebra")["items"]]
        assert found == [f"gotcha://shop/pay/{name}" for name in order]
