"""Every failed state has a remedy, in `kgd doctor` and equally in docs/recovery.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgd.tools.workspaces import remedies
from tests.conftest import ROOT
from tests.surfaces.conftest import Ask, git, upsert
from tests.waiting import until

PAGE = (ROOT / "docs/recovery.md").read_text()


def test_the_page_has_the_remedies_of_doctor() -> None:
    section = PAGE.partition("## Remedies by `kgd doctor`\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \| (.*) \|$", section, re.M)
    told = {name: remedy for name, remedy in rows if not name.startswith(("stage", "line", "---"))}
    assert told == {
        **remedies.STAGES,
        **{f"`{start.strip()} …`": remedy for start, remedy in remedies.SENTENCES.items()},
    }
    assert f"\nAnything else: {remedies.BY_ITSELF}\n" in section


def test_every_stage_has_a_remedy() -> None:
    made = re.compile(r"""\bStage\(\s*f?"([a-z]+)|_block\("([a-z]+)"|_succeed\("([a-z]+)\"""")
    found = {
        name for place in (ROOT / "kgd").rglob("*.py") for names in made.findall(place.read_text()) for name in names
    }
    assert found - {""} == set(remedies.STAGES)


def _newer_format(ask: Ask, ws: Any) -> None:
    path = ws.layout.work_tree / "kgd.yaml"
    until(lambda: ws.store.ref(ws.layout.branch) == bytes.fromhex(ws.tip))  # published: git's lock is free again
    until(lambda: not (ws.layout.git_dir / "index.lock").exists())
    path.write_text(re.sub(r"format: \d+", "format: 99", path.read_text()))
    git(ws.layout.work_tree, "commit", "-qam", "by a newer one")
    ws.hint(None)
    until(lambda: ask.status()["health"] in ("blocked", "degraded"))


def _broken_registry(ask: Ask, ws: Any) -> None:
    Path(ask.session.daemon.home.registry).write_text("workspaces: [\n")
    until(lambda: ask.session.daemon.registry.problem is not None)


def _detached(ask: Ask, ws: Any) -> None:
    git(ws.layout.work_tree, "switch", "-q", "--detach")
    ask.put(changes=upsert("b", summary="s"))
    until(lambda: ask.status()["health"] == "blocked")


@pytest.mark.parametrize(
    "break_it", [_newer_format, _detached, _broken_registry], ids=lambda break_it: break_it.__name__
)
def test_doctor_shows_a_remedy_for_every_problem(break_it: Callable[[Ask, Any], None], ask: Ask, ws: Any) -> None:
    ask.put(changes=upsert("a", summary="s"))
    until(lambda: ask.doctor()["ok"])
    break_it(ask, ws)
    until(lambda: not ask.doctor()["ok"])
    wrong = [check for check in ask.doctor()["checks"] if check["state"] in ("warning", "error", "damage")]
    assert wrong
    assert [check for check in wrong if not check.get("next") and "`" not in check["detail"]] == []
    assert ask.status()["next"]


@pytest.mark.parametrize(
    ("sentence", "remedy"),
    [
        ("read-only: it has format 9, this kgd knows 1", "Install the newer kgd"),
        ("read-only: its disk cannot be written", "Make the disk writable"),
        ("organisation's registry: line 3", "ask its maintainers"),
        ("code tree: the directory is empty", "Move the code tree back"),
        ("an unforeseen state", "kgd tries again by itself"),
    ],
)
def test_a_state_without_a_stage_is_recognised_by_the_start_of_its_sentence(sentence: str, remedy: str) -> None:
    assert remedy in remedies.of(sentence)
