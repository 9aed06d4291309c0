"""Commands whose answers come in pages: each prints its first page, and continues from the cursor that it names."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import get_type_hints

import pytest

from kgd.cli.commands import VERBS
from kgd.tools import LOCAL, TOOLS
from tests.cli.conftest import Kgd

PAGED = {
    "get": ("get", "page/long", "--budget", "50"),
    "show": ("show", "page/long"),
    "recall": ("recall", "lantern", "--limit", "1"),
    "search": ("search", "lantern", "--limit", "1"),
    "traverse": ("traverse", "page/hub", "--budget", "50"),
    "path": ("path", "page/0", "page/1", "--budget", "1"),
    "history": ("history", "page/0", "--limit", "1"),
    "log": ("log", "--limit", "1"),
    "blame": ("blame", "page/long", "--budget", "50"),
    "proposals": ("proposals", "--limit", "1"),
    "review": ("review", "--limit", "1"),
    "author": ("author", "kgd-cli", "--limit", "1"),
    "stale": ("stale", "--limit", "1"),
    "broken": ("broken", "--limit", "1"),
    "coverage": ("coverage", "--limit", "1"),
    "conflicts": ("conflicts", "--limit", "1"),
}
"""For each command with pages: a call that the workspace below answers with a first page."""


@pytest.fixture
def full(kgd: Kgd, code: Path, tmp_path: Path) -> Kgd:
    """At least two of everything that a command lists."""
    if kgd.run("get", "page/hub", "-q").returncode == 0:
        return kgd
    (code / "docs").mkdir()
    (code / "docs" / "guide.md").write_text("# Guide\n")
    base = kgd.json("put", "page/hub", "--summary", "a hub")["commit"]
    for number in range(6):
        kgd("put", f"page/{number}", "--summary", f"lantern {number}", "-q")
        kgd("link", "page/hub", f"page/{number}", "--weight", "0.1", "-q")
    kgd(
        "put",
        "page/long",
        "--relations",
        "uses:page/gone",
        "--relations",
        "uses:page/lost",
        "-q",
        "--content",
        "-",
        stdin="\n\n".join(f"Line {number} about something long." for number in range(6_000)),
    )
    for number in range(2):
        second = [kgd.json("put", f"page/{number}", "--summary", text)["commit"] for text in ("x", "lantern y")][1]
        kgd("put", f"page/{number}", "--summary", f"lantern z{number}", "-q")
        kgd("revert", second, "-q")
        kgd("remember", f"checks fail {number}", "--cites", "src/auth/session.py", "-q")
        changes = tmp_path / "changes.json"
        changes.write_text(json.dumps([{"op": "upsert", "uri": f"page/{number}", "summary": f"theirs {number}"}]))
        kgd("submit", "--changes", str(changes), "--base", base, "-m", "from afar")
    (code / "src" / "auth" / "session.py").write_text("def check():\n    return False\n")
    subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qam", "y"], cwd=code, check=True)
    return kgd


def paged() -> set[str]:
    tools = TOOLS | LOCAL
    called = {one.name: one.call for one in VERBS if one.print and one.call in tools}
    return {name for name, call in called.items() if "cursor" in get_type_hints(tools[call].Result)}


def test_every_command_with_pages_is_tried_here() -> None:
    assert paged() == set(PAGED)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PAGED))
def test_a_first_page_is_printed_and_so_is_the_next_one(full: Kgd, name: str) -> None:
    words = PAGED[name]
    cursor = full.json(*words).get("cursor")
    first = full(*words)
    assert cursor, first
    assert "more: --cursor" in first or "--limit" in words or name == "review"
    assert full(*words, "--cursor", cursor) != first
