"""Proposals at the command line: listed, shown, decided; and reviews."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Kgd


@pytest.mark.slow
def test_a_proposal_is_listed_shown_accepted_in_part_and_rejected(kgd: Kgd, tmp_path: Path) -> None:
    kgd("put", "wait/a", "--summary", "one", "-q")
    base = kgd.json("put", "wait/b", "--summary", "one")["commit"]
    kgd("put", "wait/a", "--summary", "another", "-q")
    changes = tmp_path / "changes.json"
    changes.write_text(
        json.dumps(
            [
                {"op": "upsert", "uri": "wait/a", "summary": "mine"},
                {"op": "upsert", "uri": "wait/c", "summary": "new"},
            ]
        )
    )
    said = kgd("submit", "--changes", str(changes), "--base", base, "-m", "from afar\n\nThe old value was a guess.")
    assert said.startswith("proposed in shop as ")
    assert "the same nodes were also changed here" in said
    (one,) = kgd.json("proposals")["proposals"]
    assert one["state"] == "conflicts"
    listed = kgd("proposals")
    assert one["id"] in listed
    assert "concept://shop/wait/a  (changed here too)" in listed
    filters = ("--author", "person", "--path", "/wait/**", "--since", "today", "--until", "today")
    assert [found["id"] for found in kgd.json("proposals", *filters)["proposals"]] == [one["id"]]
    assert "no open proposals" in kgd("proposals", "--author", "nobody")
    assert "no open proposals" in kgd("proposals", "--unanswered")
    assert "this is not a date" in kgd.run("proposals", "--since", "soon").stderr
    assert "a guess" not in listed
    assert "    The old value was a guess.\n" in kgd("proposals", one["id"])
    assert "+ summary: mine" in kgd("proposals", one["id"])
    assert "1 proposal to decide" in kgd("status")
    would = kgd("accept", one["id"], "--dry-run")
    assert "nothing was written" in would
    assert "concept://shop/wait/a was also changed here" in would
    assert "concept://shop/wait/c  new" in kgd("accept", one["id"], "--only", "wait/c", "--dry-run")
    assert "concept://shop/wait/a  version 3" in would
    assert kgd.run("get", "wait/c").returncode == 3
    said = kgd("accept", one["id"], "--only", "wait/c")
    assert f"1 node of {one['id']} left to decide" in said
    assert "is rejected and archived as refs/kgd/rejected/" in kgd("reject", one["id"], "--reason", "no")
    assert "no open proposals" in kgd("proposals")
    said = kgd("proposals", "--decided")
    assert f"{one['id']}  partly accepted" in said
    assert ": no\n" in said
    gone = kgd.run("accept", one["id"])
    assert gone.returncode == 3
    assert "the proposal is no longer open" in gone.stderr


@pytest.mark.slow
def test_new_knowledge_is_reviewed_and_reverted(kgd: Kgd) -> None:
    kgd("review", "--accept", "-q")
    kgd("put", "seen/a", "--summary", "learned", "-q")
    said = kgd("review")
    assert "added concept://shop/seen/a" in said
    assert "+ summary: learned" in said
    kgd("link", "seen/a", "src/checkout.py", "--type", "about", "-q")
    assert "+ -> about concept://shop/src/checkout.py @1\n" in kgd("review")
    said = kgd("review", "--approve", "seen/a", "--dry-run")
    assert "would approve concept://shop/seen/a\n" in said
    assert "would be reviewed up to " in kgd("review", "--accept", "--dry-run")
    assert "approved concept://shop/seen/a\n" in kgd("review", "--approve", "seen/a")
    assert "added concept://shop/seen/a, approved" in kgd("review")
    for option in ("--author", "--by"):
        assert kgd.json("review", option, "agent", "--since", "yesterday")["authors"] == []
    said = kgd("review", "--since", "today", "--revert", "seen/a")
    assert "concept://shop/seen/a  deleted" in said
    assert "summary" not in said, "only the revert is shown"
    assert kgd.run("get", "seen/a").returncode == 3
    kgd("review", "--accept", "-q")
    assert "no new knowledge" in kgd("review")
