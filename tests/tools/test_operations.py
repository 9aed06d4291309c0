"""Every operation is declared once and whole, and no surface knows one by name."""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin

import pytest
from typing_extensions import get_type_hints, is_typeddict

from kgd.cli import parameters
from kgd.cli.commands import GROUPS, TYPES, VERBS, Verb, function
from kgd.cli.output import show
from kgd.model.access import Verb as Scope
from kgd.tools import EVERY, TABLE, TOOLS
from kgd.tools.operation import Operation, Reflects
from kgd.tools.parameters import Params
from kgd.tools.reference import declared, table


def test_the_generated_table_is_current() -> None:
    assert TABLE.read_text() == table(), "run: python -m kgd.tools.reference docs/mcp.md"


def test_every_declaration_is_in_the_table() -> None:
    assert {name: one for name, (_, _, one) in declared().items()} == dict(EVERY)


@pytest.mark.parametrize("verb", [one for one in VERBS if one.call], ids=lambda one: str(one.name))
def test_a_command_names_functions_that_exist(verb: Verb) -> None:
    assert verb.group in GROUPS
    assert verb.call in EVERY
    assert not verb.rehearsal or verb.rehearsal in EVERY
    assert callable(getattr(parameters, verb.ask or verb.name, dict))
    assert callable(function(verb.own or verb.print))
    assert all(argument.options["help"] for argument in verb.arguments)
    assert all(one.options.get("type", str) in (str, *TYPES.values()) for one in verb.arguments)


ALWAYS_WAITS = next(one.default for one in fields(Operation) if one.name == "from_memory")


@pytest.mark.parametrize("name", EVERY)
def test_an_operation_is_declared_whole(name: str) -> None:
    one = EVERY[name]
    assert one.title
    assert one.title[-1] not in ".,:"
    assert len(one.description) > 10
    assert issubclass(one.Params, Params)
    assert is_typeddict(get_origin(one.Result) or one.Result)
    assert one.reflects & (Reflects.WORKSPACE | Reflects.NOW)
    assert (one.place > 0) == bool(one.offered), "operations offered together have an order"
    if one.scope:
        assert (one.scope is Scope.READ) == one.hints.read_only, "a call that writes needs more than `read`"
    if one.hints.read_only:
        assert not one.hints.destructive
        assert not one.commits
    else:
        assert one.from_memory is ALWAYS_WAITS, "a call that writes waits until it is durable"


UNASKED = {"merge", "hand-edit"}
"""Commits that no operation makes."""


def test_every_commit_is_declared_by_the_operation_that_makes_it() -> None:
    made = set[str]()
    for file in TABLE.parent.parent.rglob("*.py"):
        text = file.read_text()
        for node in ast.walk(ast.parse(text)) if "ChangeSet(" in text else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "ChangeSet":
                given = (one.value for one in node.keywords if one.arg == "operation")
                made |= {str(one.value) for one in given if isinstance(one, ast.Constant)}
    assert made - UNASKED <= {word for one in EVERY.values() for word in one.commits}


def example(hint: Any, size: int, name: str = "") -> Any:
    """A value of the type: with `size` 0 the emptiest one, else every field, and lists of that length."""
    origin, args = get_origin(hint), get_args(hint)
    if is_typeddict(hint):
        fields = get_type_hints(hint, include_extras=True)
        return {key: example(one, size, key) for key, one in fields.items() if size or key in hint.__required_keys__}
    if origin in (NotRequired, Required):
        return example(args[0], size, name)
    if origin in (Union, types.UnionType):
        return None if not size and type(None) in args else example(args[0], size, name)
    if origin is Literal:
        return args[0]
    if origin is list:
        return [example(args[0], size, name) for _ in range(size)]
    if origin in (dict, Mapping):
        return {f"key{number}": example(args[1], size, name) for number in range(size)}
    if hint in (int, float, bool):
        return hint(size)
    return "concept://shop/services/auth" if size else ""


PRINTED = [one for one in VERBS if one.call and one.print]


@pytest.mark.parametrize("size", [0, 1, 3], ids=["empty", "full", "long"])
@pytest.mark.parametrize("verb", PRINTED, ids=lambda one: str(one.name))
def test_a_printer_prints_every_answer(verb: Verb, size: int, capsys: pytest.CaptureFixture[str]) -> None:
    answer = example(EVERY[verb.call].Result, size)
    answer.pop("cursor", None)
    show(verb.print, answer, {})
    if size:
        assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("verb", PRINTED, ids=lambda one: str(one.name))
def test_a_page_that_continues_says_how(verb: Verb, capsys: pytest.CaptureFixture[str]) -> None:
    Result = EVERY[verb.call].Result
    if "cursor" not in get_type_hints(Result):
        return
    answer = {**example(Result, 1), "cursor": "abc"}
    show(verb.print, answer, {"verb": verb.name})
    assert "abc" in capsys.readouterr().out


ROOMS = ("cli", "daemon", "hub", "mcp", "serve", "sync")
KNOWN = {
    ("cli/__init__.py", "complete"): "the command that completion scripts run, without a parser",
    ("cli/agents.py", "status"): "an action of `kgd agents`",
    ("cli/agents.py", "uninstall"): "an action of `kgd agents`",
    ("cli/printing_sharing.py", "diff"): "a field of an answer",
    ("cli/parameters.py", "history"): "a part of a node",
    ("cli/printing.py", "nodes"): "a count",
    ("cli/printing.py", "proposals"): "a part of a node",
    ("cli/printing_history.py", "author"): "a field of an answer",
    ("cli/printing_running.py", "nodes"): "a field of an answer",
    ("cli/tasks.py", "accept"): "an option of `kgd task`",
    ("cli/tasks.py", "status"): "an option of `kgd task`",
    ("cli/commands.py", "add_task"): "the command `kgd task` is composed of operations",
    ("cli/commands.py", "status"): "an action of `kgd agents`",
    ("cli/commands.py", "uninstall"): "an action of `kgd agents`",
    ("cli/terminal.py", "nodes"): "a count",
    ("daemon/other_workspaces.py", "remote"): "a kind of trust",
    ("hub/openapi.py", "status"): "a field of an answer",
    ("hub/openapi.py", "workspaces"): "a field of an answer",
    ("hub/smart_http.py", "status"): "a header of CGI",
    ("hub/v1.py", "remote"): "a kind of trust",
    ("mcp/resources.py", "conflicts"): "a resource",
    ("mcp/resources.py", "context"): "a resource",
    ("mcp/resources.py", "job"): "a resource",
    ("mcp/resources.py", "nodes"): "a resource",
    ("mcp/resources.py", "status"): "a resource",
}
"""Words of a surface that are operations too."""


def named(room: str) -> Iterator[tuple[str, str]]:
    """(file, operation) for each comparison with an operation's name, and each list of names."""
    package = TABLE.parent.parent
    for file in sorted((package / room).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            inside: list[ast.expr] = []
            if isinstance(node, ast.Compare):
                inside = [node.left, *node.comparators]
            elif isinstance(node, ast.Tuple | ast.List | ast.Set):
                inside = node.elts
            for one in inside:
                if isinstance(one, ast.Constant) and one.value in EVERY:
                    yield str(Path(file).relative_to(package)), str(one.value)


@pytest.mark.slow
def test_no_surface_knows_an_operation_by_name() -> None:
    """What a surface does differently for one operation belongs into its declaration."""
    assert {found for room in ROOMS for found in named(room)} == set(KNOWN)


@pytest.mark.slow
def test_no_surface_has_a_table_of_operations() -> None:
    package, found = TABLE.parent.parent, set[str]()
    for room in (*ROOMS, "ui"):
        for file in (package / room).rglob("*.py"):
            for node in ast.parse(file.read_text()).body:
                if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
                    keys = [key.value for key in node.value.keys if isinstance(key, ast.Constant)]
                    if sum(key in EVERY for key in keys) > 2:
                        found.add(str(file.relative_to(package)))
    assert not found


def test_a_next_step_names_an_operation_of_mcp_as_a_value() -> None:
    mine = "|".join(verb.name for verb in VERBS if verb.call in TOOLS)
    prose = re.compile(rf"next\"?(?:\]? ?=|, )[^=]{{0,300}}?`kgd (?:{mine})\b")
    files = [file for room in ("tools", "retrieval", "sync") for file in (TABLE.parent.parent / room).rglob("*.py")]
    found = [str(file) for file in files if prose.search(file.read_text())]
    assert not found, "write Advice with a Do: agents have tools, not commands"
