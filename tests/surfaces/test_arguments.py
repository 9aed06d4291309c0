"""Arguments are read leniently where a list is meant, and strictly everywhere else."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kgd.errors import Invalid, KgdError, Limit
from kgd.tools import EVERY, TOOLS, call, paging
from kgd.tools.parameters import Params, read
from kgd.tools.server_memory.parameters import MemoryParams
from tests.surfaces.conftest import Ask

PUT, GET, TRAVERSE = (TOOLS[name].Params for name in ("put", "get", "traverse"))
CHANGE = {"op": "append", "uri": "a", "text": "x"}


@pytest.mark.parametrize("changes", [[CHANGE], CHANGE, json.dumps([CHANGE]), json.dumps(CHANGE), (CHANGE,)])
def test_a_list_may_come_as_a_list_as_one_object_or_as_the_json_text_of_either(changes: Any) -> None:
    assert [c.op for c in read(PUT, {"changes": changes}).changes] == ["append"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("uris", [["a"], "a", '["a"]', ("a",)])
def test_one_uri_stands_for_a_list_of_one(uris: Any) -> None:
    assert read(GET, {"uris": uris}).uris == ["a"]  # type: ignore[attr-defined]


def test_a_name_that_only_looks_like_json_is_a_name() -> None:
    assert read(GET, {"uris": "[draft"}).uris == ["[draft"]  # type: ignore[attr-defined]


def test_objects_within_a_change_may_be_json_text_too() -> None:
    change = {"op": "upsert", "uri": "a", "data": '{"k": 1}', "relations": '{"type": "t", "target": "b"}'}
    upsert = read(PUT, {"changes": change}).changes[0]  # type: ignore[attr-defined]
    assert upsert.data == {"k": 1}
    assert upsert.relations[0].target == "b"


@pytest.mark.parametrize(
    ("model", "arguments", "at"),
    [
        (GET, {"uris": "a", "budgett": 1}, "budgett"),
        (PUT, {"changes": [CHANGE, {**CHANGE, "texts": "y"}]}, "changes[1].texts"),
        (
            PUT,
            {"changes": {"op": "upsert", "uri": "a", "relations": [{"type": "t", "targt": "b"}]}},
            "changes[0].relations[0]",
        ),
        (
            PUT,
            {"changes": {"op": "upsert", "uri": "a", "source": {"type": "t", "id": "i", "x": 1}}},
            "changes[0].source.x",
        ),
    ],
)
def test_an_unknown_field_is_refused_at_every_level_and_placed(model: Any, arguments: Any, at: str) -> None:
    with pytest.raises(Invalid) as caught:
        read(model, arguments)
    assert caught.value.at.startswith(at)


@pytest.mark.parametrize(
    ("model", "arguments", "at", "says"),
    [
        (GET, {"uri": "a"}, "uri", "Did you mean 'uris'?"),
        (
            PUT,
            {"changes": {"op": "relate", "from": "a", "to": "b", "type": "t"}},
            "changes[0].from",
            "Known: op, source, target, type, weight, data.",
        ),
        (
            PUT,
            {"changes": {"op": "upsert", "uri": "a", "relations": ["t:b"]}},
            "changes[0].relations[0]",
            "Known: type, target, weight, data, others.",
        ),
        (PUT, {"changes": {"op": "upsert", "uri": "a", "data": [1]}}, "changes[0].data", "Give it as {...}."),
        (PUT, {"changes": {"uri": "a"}}, "changes[0].op", "one of upsert, append, delete, relate"),
        (PUT, {"changes": {"uri": "a"}}, "changes[0].op", "upsert writes a node"),
        (PUT, {"uri": "a", "name": "A"}, "uri", 'Give it as {"changes": [{"op": "upsert", "uri": ...}]}.'),
        (PUT, {"op": "upsert", "uri": "a"}, "op", 'Give it as {"changes": [{"op": "upsert", ...}]}.'),
        (PUT, {"target": "b"}, "target", 'Give it as {"changes": [{"op": "relate", "target": ...}]}.'),
        (PUT, {}, "changes", 'Give it as {"changes": [{"op": "upsert", ...}]}.'),
        (PUT, {"wrong": 1}, "wrong", "Known: changes, message"),
        (PUT, {"changes": []}, "changes", "at least one"),
    ],
)
def test_a_wrong_guess_is_answered_with_the_known_names(model: Any, arguments: Any, at: str, says: str) -> None:
    with pytest.raises(Invalid) as caught:
        read(model, arguments)
    assert caught.value.at == at
    assert says in f"{caught.value.message} {caught.value.next}"


def test_a_misspelt_argument_is_answered_with_the_right_one() -> None:
    with pytest.raises(Invalid) as caught:
        read(TRAVERSE, {"start": "a", "max_costs": 1})
    assert caught.value.next == "Did you mean 'max_cost'?"


@pytest.mark.parametrize("change", [{"uri": "a"}, {"op": "destroy", "uri": "a"}, {"op": 7}])
def test_an_unknown_op_is_refused_with_the_known_ops(change: Any) -> None:
    with pytest.raises(Invalid) as caught:
        read(PUT, {"changes": [change]})
    assert caught.value.at == "changes[0].op"


@pytest.mark.parametrize(
    ("model", "arguments"),
    [
        (GET, {}),
        (GET, {"uris": []}),
        (GET, {"uris": [1]}),
        (GET, {"uris": "a", "include": ["everything"]}),
        (TRAVERSE, {"start": "a", "max_cost": -1}),
        (TRAVERSE, {"start": "a", "max_nodes": 0}),
        (TRAVERSE, {"start": "a", "direction": "up"}),
        (TRAVERSE, {"start": "a", "max_cost": "much"}),
        (PUT, {"changes": "not json"}),
        (PUT, {"changes": [[]]}),
        (PUT, {"changes": {"op": "append", "uri": "a"}}),
        (PUT, {"changes": {"op": "upsert", "uri": "a", "expect_version": -1}}),
    ],
)
def test_a_refusal_names_the_place_in_at_most_512_characters(model: Any, arguments: Any) -> None:
    with pytest.raises(KgdError) as caught:
        read(model, arguments)
    assert caught.value.code == "VALIDATION_ERROR" or isinstance(caught.value, Limit)
    assert caught.value.at
    assert len(str(caught.value)) <= 512


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"max_nodes": 0}, "`max_nodes` must be at least 1"),
        ({"max_nodes": 10_000}, "`max_nodes` must be at most 2000"),
        ({"max_nodes": "many"}, "`max_nodes` must be a valid integer"),
        ({"direction": "up"}, "`direction` must be 'out', 'in' or 'both'"),
        ({"start": ["a"] * 101}, "`start` must have at most 100 items, not 101"),
    ],
)
def test_a_value_outside_its_range_is_refused_with_the_range(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(KgdError) as caught:
        read(TRAVERSE, {"start": "a", **arguments})
    assert caught.value.message == said


def test_no_limit_on_cost_is_null() -> None:
    assert read(TRAVERSE, {"start": "a", "max_cost": None}).max_cost is None  # type: ignore[attr-defined]


def test_a_cursor_is_valid_for_the_same_question_only() -> None:
    cursor = paging.write("get", ["a", 1], [3, 14])
    assert paging.read("get", ["a", 1], cursor) == [3, 14]
    for tool, question in (("search", ["a", 1]), ("get", ["b", 1])):
        with pytest.raises(Invalid):
            paging.read(tool, question, cursor)


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "é", "bnVsbA", "W10", "WzEsMiwzXQ", "A" * 5000])
def test_an_invalid_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(Invalid) as caught:
        paging.read("get", [], cursor)
    assert caught.value.at == "cursor"


@pytest.mark.parametrize(
    ("change", "meant"),
    [
        ({"op": "upsert", "uri": "a", "summry": "x"}, "Did you mean 'summary'?"),
        (
            {"op": "upsert", "uri": "a", "relations": {"type": "t", "target": "b", "wieght": 0}},
            "Did you mean 'weight'?",
        ),
        ({"op": "append", "uri": "a", "text": "x", "zzz": 1}, "Known: op, uri, text."),
    ],
)
def test_a_misspelt_field_of_a_change_is_refused_with_the_likely_field(change: Any, meant: str) -> None:
    with pytest.raises(Invalid) as refused:
        read(PUT, {"changes": [change]})
    assert refused.value.next == meant


def test_a_relation_without_a_type_is_refused_with_a_complete_example() -> None:
    with pytest.raises(Invalid) as refused:
        read(PUT, {"changes": [{"op": "relate", "source": "a", "target": "b"}]})
    ready = refused.value.next[refused.value.next.index("{") :].removesuffix(".")
    assert json.loads(ready) == {"op": "relate", "source": "a", "target": "b", "type": "related_to"}
    assert read(PUT, {"changes": ready})


WRONG: tuple[Any, ...] = ({"x": 1}, ["a", 1], "", "x", 5, -1, 10**30, None, "\ud800", [[]], [{}])
THEIRS = {name for name in EVERY if issubclass(EVERY[name].Params, MemoryParams)}
"""Operations that answer in the words of another server, which gives no next steps."""


@pytest.mark.parametrize("name", sorted(set(EVERY) - THEIRS))
def test_every_refusal_of_arguments_has_a_place_and_a_next_step(name: str) -> None:
    model = EVERY[name].Params
    wrong: list[dict[str, Any]] = [{parameter: value} for parameter in model.model_fields for value in WRONG]
    wrong += [{}, {"nonsense": 1}]
    refusals = [(one, refused) for one in wrong if (refused := refusal_of(model, one))]
    assert refusals
    for arguments, refusal in refusals:
        assert re.split(r"[.\[]", refusal.at)[0] in {*model.model_fields, "nonsense"}, arguments
        assert refusal.next.endswith((".", "?")), (arguments, refusal.message)


def refusal_of(model: type[Params], arguments: dict[str, Any]) -> KgdError | None:
    try:
        read(model, arguments)
    except KgdError as refusal:
        return refusal
    return None


def test_the_refusal_of_a_missing_choice_lists_the_values_and_that_of_an_option_its_default() -> None:
    for model, arguments, next in (
        (EVERY["query_graph"].Params, {}, "Give 'get', 'search' or 'context'."),
        (EVERY["manage_changelog"].Params, {}, "Give 'append' or 'search'."),
        (
            EVERY["manage_changelog"].Params,
            {"operation": "append"},
            "Needed: operation, parentType, parentId, taskId, summary.",
        ),
        (EVERY["blame"].Params, {}, "Known: uri, budget, workspace, cursor."),
        (EVERY["search"].Params, {"limit": "many"}, "Correct it, or leave it out (default: 10)."),
        (EVERY["search"].Params, {"query": "\ud800"}, "Leave it out."),
    ):
        with pytest.raises(Invalid) as refused:
            read(model, arguments)
        assert refused.value.next == next


def test_a_refusal_by_the_operation_itself_has_a_next_step(ask: Ask) -> None:
    for name, arguments in (("remember", {"text": " "}), ("put", {"changes": {**CHANGE, "text": "\n"}})):
        with pytest.raises(Invalid) as refused:
            call(ask.session, name, arguments)
        assert refused.value.next
