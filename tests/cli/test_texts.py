"""What a person reads says each thing once, and nothing that is empty."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kgd.cli import printing, printing_context, printing_history, printing_running, printing_sharing
from kgd.cli.commands import verb
from kgd.cli.output import advised, show, spoken
from kgd.errors import Advice, Do, NotFound
from tests.daemon.conftest import ROOT


def test_a_line_about_the_whole_of_an_export_has_no_empty_place_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    troubles = [{"at": "", "reason": "3 relations have no place"}, {"at": "a.md", "reason": "was left"}]
    answer: dict[str, Any] = {
        "target": "out",
        "format": "vault",
        "wrote": {"notes": 1},
        "files": {"new": 1},
        "cut": 0,
        "troubles": troubles,
    }
    printing_sharing.exported(answer)
    assert capsys.readouterr().out.splitlines()[2:] == ["  ! 3 relations have no place", "  ! a.md: was left"]


def test_a_command_of_git_is_shown_for_the_directory_of_the_caller(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my code" / "src").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "my code" / "src")
    detail = f"HEAD is detached; `git -C '{tmp_path}/my code/.kgd' switch kgd` resumes publication"
    printing_running.doctor({"checks": [{"name": "shop publish", "state": "error", "detail": detail}]})
    assert "`git -C ../.kgd switch kgd` resumes publication" in capsys.readouterr().out


@pytest.mark.parametrize(("shown", "last"), [(11, "and 1 more"), (100, "and more")])
def test_ingested_items_are_counted_in_plain_words(capsys: pytest.CaptureFixture[str], shown: int, last: str) -> None:
    nodes = [f"document://shop/{number}" for number in range(shown)]
    counts = {"chunks_new": 1, "documents_new": 293}
    printing_running.ingested({"kind": "auto", "source": "docs", "counts": counts, "nodes": nodes})
    told = capsys.readouterr().out.splitlines()
    assert (told[0], told[-1].strip()) == ("docs ingested: 1 chunk new, 293 documents new", last)


def test_parts_beyond_the_budget_are_counted_in_plain_words(capsys: pytest.CaptureFixture[str]) -> None:
    kinds = {"atom": 1, "molecule": 1, "insight": 1, "changes": 1, "known_by": 2, "unmatched_paths": 3}
    cut = [{"what": what, "count": count} for what, count in kinds.items()]
    lists: dict[str, Any] = {"items": [], "changes": [], "changed_together": [], "known_by": [], "unmatched_paths": []}
    printing_context.context({**lists, "cut": cut})
    told = "2 areas, 1 fact, 1 change, 2 main authors, 3 unmatched paths"
    assert f"left out to fit the budget: {told}; raise --budget to see more\n" in capsys.readouterr().out


def test_a_stored_code_tree_is_counted_in_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    printing_running.ingested({"kind": "tree", "source": "/shop", "counts": {"files": 2}, "stored": 1, "commits": []})
    assert capsys.readouterr().out == "/shop scanned: 2 files\nstored as 1 node\n"


def _disputed() -> dict[str, Any]:
    sides = [{"side": "a", "value": "Ann's"}, {"side": "b", "value": "Bob's"}]
    fields = {"summary": {"base": "Old", "sides": sides, "shown": "b"}}
    updated = {"at": "2026-11-30T07:00:00Z", "by": "Bob <bob@example.org>"}
    node = {"uri": "insight://shop/a", "type": "insight", "name": "Bob's", "version": 2, "updated": updated}
    return {**node, "conflicts": [{"uri": "insight://shop/a", "fields": fields}]}


def test_a_disputed_value_has_no_author_and_is_shown_with_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    printing.get({"nodes": [_disputed()]})
    told = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "updated 2026-11-30T07:00:00Z" in told
    assert told[-2:] == ["a: Ann's", "b: Bob's  (shown)"]


def test_the_problem_of_a_step_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    stages = [
        {"name": "embedding", "state": "degraded", "about": "5 of 6 texts", "blocker": "it is down"},
        {"name": "publish", "state": "waiting", "blocker": "no remote answers"},
    ]
    daemon = {"version": "1", "pid": 1, "since": "now", "log": "log"}
    answer = {
        "daemon": daemon,
        "health": "degraded",
        "stages": stages,
        "degraded": ["embedding: it is down"],
        "invalid_files": [],
        "proposals": 0,
        "counts": {},
        "conflicts": 0,
    }
    printing_running.status(answer)
    told = capsys.readouterr().out
    assert (told.count("it is down"), told.count("no remote answers")) == (1, 1)


def test_languages_that_the_same_package_reads_share_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    missing = [
        {"language": "go", "files": 1, "install": "the extra"},
        {"language": "lua", "files": 1, "install": "tree-sitter-lua"},
        {"language": "java", "files": 2, "install": "the extra"},
    ]
    code = {"languages": {}, "documents": 0, "state": "read", "left_out": {}, "missing": missing}
    workspace = {"proposals": 0, "conflicts": 0, "counts": {}, "stages": [], "degraded": [], "invalid_files": []}
    daemon = {"version": "1", "pid": 1, "since": "now", "log": "log"}
    printing_running.status({"daemon": daemon, "health": "ok", "code": code, **workspace})
    told = capsys.readouterr().out
    assert "  not read    go, java: 3 files; install the extra\n" in told
    assert "  not read    lua: 1 file; install tree-sitter-lua\n" in told


def test_a_summary_that_is_the_name_again_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    node = {"uri": "insight://shop/a", "type": "insight", "version": 1, "name": "Keys rotate", "summary": "Keys rotate"}
    printing.get({"nodes": [node], "missing": []})
    assert capsys.readouterr().out.count("Keys rotate") == 1


def test_what_imports_and_verifications_note_for_themselves_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    node = {"uri": "concept://shop/a", "type": "concept", "version": 1, "name": "A"}
    data = {"imported": "1f", "vault": {"head": "---"}, "verified": {"a@1": True}, "author": "Ann"}
    printing.get({"nodes": [{**node, "data": data}], "missing": []})
    shown = capsys.readouterr().out
    assert "author: Ann" in shown
    assert not any(key in shown for key in ("imported", "head", "a@1"))
    printing.get({"nodes": [{**node, "data": {"vault": "a bank's"}}], "missing": []})
    assert "vault: a bank's" in capsys.readouterr().out


def test_a_file_that_is_left_is_named_once_with_its_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = str(tmp_path / "a.json")
    broken = {"path": path, "state": "", "error": {"message": "this is no JSON", "at": f"{path}, line 3", "next": ""}}
    whole = {"path": path, "state": "", "error": {"message": "this file is not UTF-8", "at": path}}
    printing_running.agents({"entries": [broken, whole]})
    assert capsys.readouterr().out.splitlines() == [
        "! a.json: this is no JSON (line 3)",
        "    nothing was written to it.",
        "! a.json: this file is not UTF-8",
        "    nothing was written to it.",
    ]


@pytest.mark.parametrize(
    ("do", "shown"),
    [
        (Do("get"), "`kgd get`"),
        (Do("put", op="append"), "`kgd append`"),
        (Do("search", types="task"), "`kgd search --types task`"),
        (Do("search", types="atom"), "`kgd areas`"),
        (Do("resolve_conflicts"), "`kgd resolve`"),
        (Do("query_container", operation="search"), "`kgd task list`"),
        (Do("put", type="task"), "`kgd task add NAME`"),
        (Do("graph_view"), "graph_view"),
    ],
    ids=lambda one: one.as_tool() if isinstance(one, Do) else "",
)
def test_an_operation_is_named_by_its_command(do: Do, shown: str) -> None:
    said = NotFound("x", next=Advice("Look with ", do, "."))
    assert spoken(said, verb("get"), {})[2] == f"Look with {shown}."
    assert said.next == f"Look with {do.as_tool()}.", "agents see the tool"


TOOLS = re.compile(r"\b(\w+_(graph|container|conflicts|subgraph|changelog)|with (put|get|search|upsert)|put again)\b")


def _is_do(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Do"


def _advised() -> Iterator[str]:
    """Every sentence of the program that says what to do next."""
    for path in (ROOT / "kgd").rglob("*.py"):
        for found in ast.walk(ast.parse(path.read_text())):
            given = [found.value] if isinstance(found, ast.keyword) and found.arg == "next" else []
            if isinstance(found, ast.Dict):
                given = [
                    v
                    for k, v in zip(found.keys, found.values, strict=True)
                    if isinstance(k, ast.Constant) and k.value == "next"
                ]
            called = {one for value in given for do in ast.walk(value) if _is_do(do) for one in ast.walk(do)}
            inner = (
                one for value in given for one in ast.walk(value) if isinstance(one, ast.Constant) and one not in called
            )
            yield from (one.value for one in inner if isinstance(one.value, str))


@pytest.mark.slow
def test_a_next_step_names_operations_as_values() -> None:
    """A surface could not put a name within a sentence in its own words."""
    assert [text for text in _advised() if TOOLS.search(text)] == []


def test_the_next_step_of_an_answer_names_commands(capsys: pytest.CaptureFixture[str]) -> None:
    answer = {"changes": [], "next": Advice("Write it with ", Do("put"), "."), "warnings": []}
    show("printing_sharing.compressed", answer, {})
    assert capsys.readouterr().out == "Write it with `kgd put`.\n"


def test_a_workspace_without_code_says_how_a_client_that_starts_elsewhere_finds_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printing_running.up({"workspace": "memory", "path": "/home/me/memory", "published": []})
    assert capsys.readouterr().out.endswith("the arguments are: mcp -C /home/me/memory\n")
    printing_running.up(
        {"workspace": "shop", "path": "/home/me/shop/.kgd", "code_tree": "/home/me/shop", "published": []}
    )
    assert "-C" not in capsys.readouterr().out


@pytest.mark.parametrize("printer", [printing.put, printing_sharing.remotes, printing_running.agents])
def test_a_warning_is_shown_once(capsys: pytest.CaptureFixture[str], printer: Callable[[dict[str, Any]], None]) -> None:
    missing, other = "no node is called vault", "no node is called keys"
    printer({"warnings": [missing, other, missing], "remotes": [], "entries": []})
    printed = capsys.readouterr().out
    assert [printed.count(one) for one in (missing, other)] == [1, 1]


KEYS = {"kind": "gotcha", "name": "Keys", "uri": "gotcha://shop/keys", "why": "cites it"}


def test_a_stale_node_in_a_context_is_marked_once_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    doubt = {"reason": "check in src/auth/session.py changed, in no commit yet"}
    answer: dict[str, Any] = {
        "items": [KEYS | {"unverified": doubt}],
        "changes": [],
        "changed_together": [],
        "unmatched_paths": [],
        "cut": [],
    }
    printing_context.context(answer)
    assert f"    ! stale: {doubt['reason']}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("unmatched", "items", "shown"),
    [
        (["a.py"], [], "a.py belongs to no area\n"),
        (["a.py"], [KEYS], "In no area\n  a.py (no fact names it)\n"),
        (["a.py"] * 28, [], "a.py belongs to no area\n"),
        (["a.py"] * 28, [KEYS], "28 files belong to no area\n"),
    ],
)
def test_paths_without_an_area_are_said_once(
    capsys: pytest.CaptureFixture[str], unmatched: list[str], items: list[dict[str, Any]], shown: str
) -> None:
    lists: dict[str, Any] = {"changes": [], "changed_together": [], "cut": []}
    missing = {"message": "a.py belongs to no area"}
    printing_context.context({**lists, "items": items, "unmatched_paths": unmatched, "missing": missing})
    printed = capsys.readouterr().out
    assert printed.endswith(shown)
    assert printed.count("no area") == 1


@pytest.mark.parametrize(
    ("paths", "pattern"),
    [(["a.py"], "a.py"), (["../x.py", "src/auth/a.py"], "src/auth/**"), (["/etc/passwd", "../x.py"], "")],
)
def test_a_terminal_shows_the_command_that_creates_an_area_for_a_path_of_the_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], paths: list[str], pattern: str
) -> None:
    monkeypatch.setattr(printing_context, "is_terminal", lambda: True)
    lists: dict[str, Any] = {"items": [], "changes": [], "changed_together": [], "cut": []}
    printing_context.context({**lists, "unmatched_paths": paths})
    command = capsys.readouterr().out.partition("`kgd areas` lists the areas; this command creates one:\n")[2]
    data = json.dumps({"paths": [pattern]})
    made = ["kgd", "put", "atom:NAME", "--data", data, "--content", "RULES"] if pattern else []
    assert shlex.split(command) == made


def test_a_search_that_found_something_still_says_that_it_is_partial(capsys: pytest.CaptureFixture[str]) -> None:
    hit = {"uri": "concept://shop/a", "type": "concept", "name": "A", "summary": "s", "score": 1, "why": []}
    printing.search({"hits": [hit], "hint": "The text index is being built."})
    assert "! The text index is being built." in capsys.readouterr().out
    printing.search({"hits": [hit], "hint": f"{printing.NOTHING_KNOWN} Texts are still being embedded."})
    out = capsys.readouterr().out
    assert "! Texts are still being embedded." in out
    assert printing.NOTHING_KNOWN not in out


def test_a_search_without_an_answer_is_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    printing.search({"hits": [], "code": [], "hint": printing.NOTHING_KNOWN})
    assert capsys.readouterr().out == 'nothing is known about this\n    `kgd remember "…"` records it\n'


def test_a_search_of_less_than_everything_does_not_report_that_nothing_is_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printing.search({"hits": [], "code": [], "hint": "None of the best 9 hits pass the filters."})
    assert capsys.readouterr().out == "None of the best 9 hits pass the filters.\n"


def test_the_next_step_of_an_answer_names_the_option() -> None:
    assert advised({"next": "Name one with `workspace`: a, b."})["next"] == "Name one with `-w`: a, b."


def test_why_shows_the_line_and_the_knowledge_about_it_and_not_the_rest_of_the_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = {
        "path": "src/a.py",
        "first": 3,
        "last": 3,
        "text": "x = 1",
        "commit": "c" * 12,
        "at": "2026-11-21T12:00:00Z",
        "by": "Ann",
        "what": "Round once",
    }
    item = {"kind": "gotcha", "name": "Cents", "uri": "gotcha://shop/cents", "why": "cites it"}
    code = {"name": "b.py", "uri": "file://shop/src/b.py", "why": "imports a.py"}
    commit = {"at": "2026-11-21T12:00:00Z", "commit": "d" * 12, "what": "Something else"}
    answer: dict[str, Any] = {
        "lines": [line],
        "items": [item],
        "code": [code],
        "changes": [commit],
        "changed_together": [],
        "unmatched_paths": ["src/a.py"],
        "cut": [{"what": "code", "count": 3}, {"what": "gotcha", "count": 2}],
    }
    printing_context.why(answer)
    said = capsys.readouterr().out
    assert said.splitlines() == [
        "src/a.py:3",
        "  | x = 1",
        "  2026-11-21 cccccccccc Ann: Round once",
        "About the file",
        "  Cents  gotcha://shop/cents",
        "    cites it",
        "left out to fit the budget: 2 gotchas; raise --budget to see more",
    ]
    printing_context.why({**answer, "lines": []})
    assert capsys.readouterr().out.splitlines() == [
        "Gotchas",
        "  Cents  gotcha://shop/cents",
        "    cites it",
        "Recent changes",
        "  2026-11-21 dddddddddd Something else",
        "left out to fit the budget: 2 gotchas; raise --budget to see more",
    ]


def test_a_shown_task_has_its_sections_as_paragraphs(capsys: pytest.CaptureFixture[str]) -> None:
    sections = [{"title": "Objective", "content": "Sign longer"}, {"title": "Acceptance Criteria", "content": "A\nB"}]
    node = {"uri": "task://shop/sign", "type": "task", "name": "Sign", "version": 1, "data": {"sections": sections}}
    printing.get({"nodes": [node]})
    told = capsys.readouterr().out
    assert told.endswith("  Objective\n    Sign longer\n  Acceptance Criteria\n    A\n    B\n")
    assert "content" not in told


def test_a_resolved_conflict_names_its_node_once_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(printing_sharing, "is_terminal", lambda: True)
    uri = "insight://shop/a"
    settled = [{"uri": uri, "fields": {"summary": "Ten"}}]
    printing_sharing.resolve({"commit": "c" * 40, "nodes": [{"uri": uri, "version": 4}], "settled": settled})
    assert capsys.readouterr().out == f"commit {'c' * 10}\n  {uri}  version 4\n    summary: Ten\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_side_that_deleted_the_node_is_called_deleted(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (printing_history, printing_sharing):
        monkeypatch.setattr(module, "is_terminal", lambda: terminal)
    uri = "insight://shop/a"
    sides = [{"side": "a", "value": None}, {"side": "b", "value": {"uri": uri}}]
    fields = {"node": {"base": {"uri": uri}, "sides": sides, "shown": "b"}}
    printing_history.conflicts({"conflicts": [{"uri": uri, "id": f"{uri}#1", "fields": fields}]})
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines() if "deleted" in line] == ["deleted"]
    settled = [{"uri": uri, "fields": {"node": None}}]
    printing_sharing.resolve({"commit": "c" * 40, "nodes": [{"uri": uri, "version": 0}], "settled": settled})
    assert capsys.readouterr().out.splitlines()[-1].strip().endswith("node: deleted")
