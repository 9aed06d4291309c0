"""One entry in a person's JSON: it goes in, everything else means what it meant, and taken out the bytes are back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from kgd.agents import jsonc
from kgd.agents.entries import JsonEntry, server
from kgd.errors import Invalid

ENTRY = JsonEntry("server", ("mcpServers",), server("kgd"), "kgd")
HOOK = JsonEntry(
    "hook", ("hooks", "SessionStart"), {"hooks": [{"type": "command", "command": "kgd prime --hook || true"}]}
)

blank = st.text(" \t", max_size=3)
comment = st.one_of(
    st.text("ab {}[],:\"'\\*é", max_size=8).map(lambda text: f"/*{text}*/"),
    st.text("ab {}[],:\"'*\\/é", max_size=8).map(lambda text: f"//{text}\n"),
)
gap = st.lists(st.one_of(blank, st.just("\n"), st.just("\n  "), comment), max_size=3).map("".join)
keys = st.one_of(st.sampled_from(["mcpServers", "hooks", "SessionStart", "kgd", "a"]), st.text(max_size=5))
words = st.one_of(st.text(max_size=8), st.sampled_from(["{", "//", '"', "/*", ","])).map(json.dumps)
plain = st.one_of(words, st.integers().map(str), st.sampled_from(["true", "false", "null", "-0.5e+3"]))


@st.composite
def containers(draw: st.DrawFn, inner: st.SearchStrategy[str], *, is_object: bool) -> str:
    """An object or a list, with comments and blanks anywhere, and sometimes a trailing comma."""
    names = draw(st.lists(keys, max_size=3, unique=True)) if is_object else draw(st.lists(st.none(), max_size=3))
    parts = []
    for name in names:
        key = f"{json.dumps(name)}{draw(gap)}:{draw(gap)}" if name is not None else ""
        parts.append(f"{draw(gap)}{key}{draw(inner)}{draw(gap)}")
    last = f",{draw(gap)}" if bool(parts) and draw(st.booleans()) else draw(gap)
    opening, closing = "{}" if is_object else "[]"
    return f"{opening}{','.join(parts)}{last}{closing}"


values = st.recursive(
    plain,
    lambda inner: st.one_of(containers(inner, is_object=True), containers(inner, is_object=False)),
    max_leaves=6,
)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A whole file: an object, sometimes with what an entry goes into, with LF or CRLF."""
    root = draw(containers(values, is_object=True))
    if draw(st.booleans()):
        inside = draw(containers(values, is_object=True))
        rest = f',{draw(gap)}"z": {draw(values)}' if draw(st.booleans()) else draw(gap)
        name = draw(st.sampled_from(["mcpServers", "hooks"]))
        root = f'{{{draw(gap)}"{name}":{draw(gap)}{inside}{rest}}}'
    text = f"{draw(gap)}{root}{draw(gap)}"
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


@pytest.mark.slow
@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(text=documents(), entry=st.sampled_from([ENTRY, HOOK]))
def test_removal_restores_the_text_before_insertion(text: str, entry: JsonEntry) -> None:
    before = jsonc.parse(text).data
    try:
        if entry.state(text, known=False) != "absent":
            return
        new = entry.put(text)
    except Invalid:
        return  # the value is not an object, or not a list
    assert jsonc.parse(new).data == with_entry(before, entry)
    assert entry.state(new, known=False) == "present"
    event("checked")
    assert entry.taken(new) == text


def with_entry(data: dict[str, Any], entry: JsonEntry) -> dict[str, Any]:
    """The same with the entry as the first one of its container."""
    copy: dict[str, Any] = json.loads(json.dumps(data))
    at: Any = copy
    for key in entry.path[:-1]:
        at = at.setdefault(key, {})
    last = entry.path[-1]
    if entry.name:
        at[last] = {entry.name: entry.value, **at.get(last, {})}
    else:
        at[last] = [entry.value, *at.get(last, [])]
    return copy


@pytest.mark.slow
@settings(max_examples=settings().max_examples, deadline=None)
@given(text=documents(), number=st.integers(0, 3))
def test_any_member_can_be_taken_out_and_the_others_stay(text: str, number: int) -> None:
    """As where the person put others before ours, or comments behind it."""
    root = jsonc.parse(text)
    members = [one.key for one in root.items]
    if members and members.count(key := members[number % len(members)]) == 1:
        new = jsonc.removed(text, (), lambda one: one.key == key)
        assert jsonc.parse(new).data == {name: value for name, value in root.data.items() if name != key}


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(text=values)
def test_json_is_read_as_the_standard_library_reads_it(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        return
    assert jsonc.parse(text).data == expected


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{\n  "a": 1\n  "b": 2\n}', 3),
        ("{", 1),
        ('{"a" 1}', 1),
        ('{\n"a": nope}', 2),
        ('{"a": 1} x', 1),
        ('{"a": "\n"}', 1),
        ("[1,,2]", 1),
        ('{"a": 01}', 1),
        ("{a: 1}", 1),
        ('{"mcpServers": []}', 1),
        ('{\n\n"mcpServers": "no"}', 3),
        ("[]", 1),
        ("/* open", 1),
        ("[" * 5000, 1),
    ],
)
def test_broken_json_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(Invalid) as refusal:
        ENTRY.put(text)
    assert refusal.value.at == f"line {line}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            '{\n    // mine\n    "mcpServers": { // all of them\n        "a": {} // the first\n    },\n}\n',
            '{\n    // mine\n    "mcpServers": { // all of them\n'
            '        "kgd": { "command": "kgd", "args": ["mcp"] },\n'
            '        "a": {} // the first\n    },\n}\n',
        ),
        (
            '{\n\t"theme": "dark"\n}\n',
            '{\n\t"mcpServers": { "kgd": { "command": "kgd", "args": ["mcp"] } },\n\t"theme": "dark"\n}\n',
        ),
        ('{"a":1}', '{"mcpServers": { "kgd": { "command": "kgd", "args": ["mcp"] } }, "a":1}'),
        ("", '{ "mcpServers": { "kgd": { "command": "kgd", "args": ["mcp"] } } }'),
    ],
)
def test_an_entry_looks_as_if_a_person_had_put_it_there(before: str, after: str) -> None:
    assert ENTRY.put(before) == after
    assert ENTRY.taken(after) == before


@pytest.mark.parametrize(
    "own",
    [
        '{"mcpServers": {"kgd": {"command": "kgd", "args": ["mcp"]}}}',
        '{"mcpServers": {"kgd": { "command": "kgd", "args": ["-C", "/x", "mcp"] }}}',
        '{"mcpServers": {"kgd": { "command": "kgd", "args": ["mcp"], "env": {"KGD_HOME": "x"} }}}',
        '{"mcpServers": {"kgd": { "url": "https://hub.example" }}}',
        '{"mcpServers": {"kgd": null}}',
        '{"mcpServers": {"kgd": "off"}}',
    ],
)
def test_an_entry_of_the_persons_own_is_not_ours(own: str) -> None:
    assert ENTRY.state(own, known=False) == "own"


def test_a_hook_beside_ours_in_one_group_makes_the_group_the_persons() -> None:
    group = {"hooks": [{"type": "command", "command": "kgd prime --hook || true"}, {"type": "command", "command": "x"}]}
    assert HOOK.state(json.dumps({"hooks": {"SessionStart": [group]}}), known=True) == "own"


def test_a_file_reformatted_by_the_host_is_still_cleared() -> None:
    """Claude Code writes its file again and again, in its own layout and with its own additions."""
    written = json.loads(ENTRY.put('{"numStartups": 1}'))
    written["mcpServers"]["kgd"].update({"type": "stdio", "env": {}})
    anew = json.dumps(written, indent=2)
    assert ENTRY.state(anew, known=True) == "present"
    assert json.loads(ENTRY.taken(anew) or "") == {"mcpServers": {}, "numStartups": 1}


def test_an_entry_that_is_no_longer_the_first_leaves_its_neighbours_alone() -> None:
    text = '{\n  "mcpServers": {\n    "a": {}, // mine\n    "kgd": { "command": "kgd", "args": ["mcp"] }\n  }\n}\n'
    assert ENTRY.taken(text) == '{\n  "mcpServers": {\n    "a": {} // mine\n  }\n}\n'
    text = '{"mcpServers": {"a": {}, "kgd": { "command": "kgd", "args": ["mcp"] } /* ? */, "b": {}}}'
    assert jsonc.parse(ENTRY.taken(text) or "").data == {"mcpServers": {"a": {}, "b": {}}}


def test_an_entry_of_an_earlier_place_of_kgd_is_brought_up_to_date() -> None:
    older = JsonEntry("server", ("mcpServers",), server("/old/kgd"), "kgd").put('{\n  "a": 1\n}\n')
    assert ENTRY.state(older, known=False) == "outdated"
    assert ENTRY.put(older) == ENTRY.put('{\n  "a": 1\n}\n')
    of_before = JsonEntry("server", ("mcpServers",), server("/old/kgd"), "kgd")
    for text in (None, "", "\n", "{}"):
        assert ENTRY.put(of_before.put(text)) == ENTRY.put(text)
