"""What would make a workspace smaller or truer is proposed with its reasons, and nothing is changed before somebody
accepts it."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from kgd.workspace.workspace import Workspace
from tests.compression.conftest import Clock
from tests.surfaces.conftest import Ask, upsert


def relate(source: str, target: str, type: str, weight: float = 1.0) -> dict[str, Any]:
    return {"op": "relate", "source": source, "target": target, "type": type, "weight": weight}


def tree(ws: Workspace) -> str:
    """All files of the tip, as git names them with their contents."""
    words = ["git", "--git-dir", str(ws.layout.git_dir), "ls-tree", "-r", ws.tip]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def short(uri: str) -> str:
    return uri.split("/", 3)[3]


def named(answer: dict[str, Any]) -> set[tuple[str, ...]]:
    return {(one["kind"], *map(short, one["nodes"])) for one in answer["changes"]}


PLANTED = {
    ("merge", "auth", "old/auth", "old/auth-2"),
    ("merge", "mail/sender", "mail/senders"),
    ("mark", "facts/port-2019"),
    ("mark", "facts/limit-old"),
    ("prune", "shop"),
    ("prune", "note"),
}


def plant(ask: Ask, clock: Clock) -> None:
    ask.put(changes=[
        upsert("facts/limit-old", name="Upload limit", content="An upload has at most 10 MB.", tags=["contradicted"]),
        upsert("keys", name="Key vault", content="Keeps keys."),
        upsert("ledger", name="Ledger", content="Books what was paid."),
        upsert("facts/port-2019", name="Port in 2019", content="The service listens on 8080."),
    ])  # fmt: skip
    clock.days(100)
    ask.put(changes=[
        upsert("auth", name="Auth service", content="Signs tokens.", tags=["a"], data={"observations": ["x", "y"]}),
        upsert("old/auth", name="Auth Service", content="Never cache a key.", tags=["b"],
               data={"observations": ["y", "z"], "port": 80}),
        upsert("old/auth-2", name="auth service", content="Signs tokens."),
        upsert("mail/sender", name="Notification sender", content="Sends mail."),
        upsert("mail/senders", name="Notification senders", content="Retries thrice."),
        upsert("facts/limit", name="Upload limit", content="An upload has at most 50 MB."),
        upsert("facts/port", name="Port since 2024", content="The service listens on 443."),
        upsert("shop", name="Till", content="Where people pay."),
        upsert("note", name="Note", content="The Key vault is slow on Mondays."),
        upsert("release-1", name="Release notes 1", content="First."),
        upsert("release-2", name="Release notes 2", content="Second."),
        relate("old/auth", "keys", "depends_on"), relate("shop", "old/auth", "calls", 0.4),
        relate("facts/port", "facts/port-2019", "supersedes"),
        relate("shop", "ledger", "uses", 0.3), relate("shop", "ledger", "related_to", 0.9),
        relate("ledger", "keys", "uses", 0.3), relate("shop", "keys", "related_to", 0.6),
        relate("ledger", "shop", "related_to", 0.5),
        relate("note", "keys", "mentions"),
    ])  # fmt: skip


@pytest.fixture
def planted(ask: Ask, clock: Clock) -> Ask:
    plant(ask, clock)
    return ask


@pytest.mark.requirement("U13")
def test_planted_doubles_and_stale_facts_are_proposed_and_nothing_else(planted: Ask, ws: Workspace) -> None:
    before = tree(ws)
    trial = planted.compress(dry_run=True)
    assert "proposal" not in trial
    found = planted.compress()
    right = named(found) & PLANTED
    print(f"precision {len(right) / len(named(found)):.2f}, recall {len(right) / len(PLANTED):.2f}")
    assert named(found) == named(trial) == PLANTED
    assert all(one["reason"] for one in found["changes"])
    assert tree(ws) == before, "a proposal changes nothing"
