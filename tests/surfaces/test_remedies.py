"""Every failed state has a remedy, in `kgd doctor` and equally in docs/recovery.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgd.daemon import code_index_process
from kgd.freshness import freshness
from kgd.mentions import writer as mentions_writer
from kgd.mentions.mentions import Mentions
from kgd.tools.workspaces import status
from kgd.workspace.derived import indexed_text, vector_writer
from tests.conftest import ROOT
from tests.surfaces.conftest import Ask, git, upsert
from tests.waiting import until

PAGE = (ROOT / "docs/recovery.md").read_text()


def test_the_page_has_the_remedies_of_doctor() -> None:
    section = PAGE.partition("## Remedies by `kgd doctor`\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \| (.*) \|$", section, re.M)
    told = {name: remedy for name, remedy in rows if not name.startswith(("stage", "line", "---"))}
    assert told == {
        **status.STAGE_REMEDIES,
        **{f"`{start.strip()} …`": remedy for start, remedy in status.REMEDIES.items()},
        "any other line": status.BY_ITSELF,
    }


def test_every_stage_has_a_remedy() -> None:
    made = re.compile(r"""\bStage\(\s*f?"([a-z]+)|_block\("([a-z]+)"|_succeed\("([a-z]+)\"""")
    found = {
        name for place in (ROOT / "kgd").rglob("*.py") for names in made.findall(place.read_text()) for name in names
    }
    assert found - {""} == set(status.STAGE_REMEDIES)


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


@pytest.mark.slow
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


FAILING = ("-c", "raise SystemExit(3)")


def _failing_index(ask: Ask, patch: pytest.MonkeyPatch) -> str:
    patch.setattr(indexed_text, "PROGRAM", FAILING)
    _write_much(ask)
    return "derived data: the daemon writes the text index itself (the process for derived data crashed)"


def _failing_embeddings(ask: Ask, patch: pytest.MonkeyPatch) -> str:
    patch.setattr(vector_writer, "PROGRAM", FAILING)
    _write_much(ask)
    return "derived data: the daemon writes the embeddings itself (the process for derived data crashed)"


def _failing_mentions(ask: Ask, patch: pytest.MonkeyPatch) -> str:
    patch.setattr(mentions_writer, "PROGRAM", FAILING)
    Mentions.of(ask.session.daemon.workspace("shop"))
    _write_much(ask)
    return "derived data: the daemon writes the mentions itself (the process for derived data crashed)"


def _failing_parser(ask: Ask, patch: pytest.MonkeyPatch) -> str:
    patch.setattr(code_index_process, "PROGRAM", FAILING)
    assert ask.session.cwd is not None
    (ask.session.cwd / "new.py").write_text("def new():\n    pass\n")
    return "code: the code tree cannot be read: its parser crashed"


def _unreadable_history(ask: Ask, patch: pytest.MonkeyPatch) -> str:
    assert ask.session.cwd is not None
    (ask.session.cwd / ".git/HEAD").write_text("0" * 39 + "1\n")
    return "code history: "


def _failing_citations(ask: Ask, patch: pytest.MonkeyPatch) -> str:
    patch.setattr(freshness, "judge", lambda *asked, deep: 1 // 0)
    ask.put(changes=upsert("a", summary="s", data={"cites": ["src/checkout.py"]}))
    return "stale nodes: "


def _write_much(ask: Ask) -> None:
    nodes = [upsert(f"n{number}", content=f"Lease {number}.\n") for number in range(600)]
    for start in (0, 300):
        ask.put(changes=nodes[start : start + 300])


@pytest.mark.slow
@pytest.mark.parametrize(
    "break_it",
    [
        _failing_index,
        _failing_embeddings,
        _failing_mentions,
        _failing_parser,
        _unreadable_history,
        _failing_citations,
    ],
    ids=lambda break_it: break_it.__name__,
)
def test_status_and_doctor_report_work_that_keeps_failing(
    break_it: Callable[[Ask, pytest.MonkeyPatch], str], ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    until(lambda: ask.doctor()["ok"], say=ask.doctor)
    said = break_it(ask, monkeypatch)
    until(lambda: any(text.startswith(said) for text in ask.status()["degraded"]), say=ask.status)
    assert ask.status()["health"] == "degraded"
    checks = ask.doctor()["checks"]
    [told] = [
        one for one in checks if said in (one["detail"], f"code: {one['detail']}") or one["detail"].startswith(said)
    ]
    assert told["state"] == "warning"
    assert told["next"] not in ("", status.BY_ITSELF)


@pytest.mark.parametrize(
    ("sentence", "remedy"),
    [
        ("read-only: it has format 9; this kgd supports 1", "Install the newer kgd"),
        ("read-only: its disk cannot be written", "Make the disk writable"),
        ("organisation's registry: line 3", "ask its maintainers to"),
        ("code tree: the directory is empty", "move the code tree back"),
        ("an unforeseen state", "kgd tries again by itself"),
    ],
)
def test_a_state_without_a_stage_is_recognised_by_the_start_of_its_sentence(sentence: str, remedy: str) -> None:
    assert remedy in status.remedy(sentence)
