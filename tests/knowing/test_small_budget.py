"""A small `context` holds the best of each kind, however many there are of each."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.surfaces.conftest import Ask, ask, code, daemon, git, session, upsert, ws
from tests.surfaces.test_conflicts import disagree
from tests.waiting import until

__all__ = ["ask", "code", "daemon", "session", "ws"]

SESSION = "src/auth/session.py"
CROWD = 12


def change(root: Path, message: str, *paths: str) -> None:
    for path in paths:
        with (root / path).open("a") as file:
            file.write(f"# {message.splitlines()[0]}\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", message)


@pytest.fixture
def crowded(ask: Ask, code: Path) -> Ask:
    """A file with a dozen traps, patterns, decisions and tasks, an area, importers, and a history."""
    git(code, "config", "user.name", "Ann Person")
    for number in range(30):
        change(code, f"Work on part {number}", "README.md")
    for number in range(8):
        change(code, f"Sign again, number {number}", SESSION, "docs/My File.md")
    change(code, "Check tokens\n\nForged ones were signed in May.", SESSION)
    about = {"relations": [{"type": "about", "target": f"./{SESSION}"}]}
    ask.put(
        changes=[
            upsert("atom:auth", name="Auth", content="Never log a token. " * 60, data={"paths": ["src/auth/**"]}),
            *(
                upsert(f"{kind}:{kind}-{n}", name=f"The {kind} {n}", summary=f"Number {n}: {'words ' * 14}", **about)
                for kind in ("gotcha", "pattern", "decision", "task")
                for n in range(CROWD)
            ),
        ]
    )
    disagree(ask, "atom:auth", "summary")
    until(lambda: any("checkout" in one["uri"] for one in ask.context(paths=SESSION, budget=9_000).get("code", [])))
    return ask


@pytest.mark.slow
@pytest.mark.requirement("N3")
def test_800_tokens_hold_the_best_of_each_kind(crowded: Ask) -> None:
    answer = crowded.context(paths=SESSION, budget=800)
    assert len(orjson.dumps(answer)) <= 4 * 800
    kinds = [one["kind"] for one in answer["items"]]
    assert kinds[0] == "atom"
    assert {"gotcha", "pattern", "decision", "task"} <= set(kinds)
    assert answer["items"][0]["conflicts"] == ["summary"]
    assert "Never log a token." in answer["items"][0]["text"]
    assert "checkout" in answer["code"][0]["uri"]
    assert answer["changes"][0]["why"] == "Forged ones were signed in May."
    assert answer["changed_together"][0]["path"] == "docs/My File.md"
    assert answer["known_by"][0]["name"] == "Ann Person"
