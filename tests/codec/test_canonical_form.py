"""The canonical form keeps every value exactly, and every YAML 1.2 reader reads the same."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from kgd.codec import canonical, documents
from kgd.codec.canonical import NotCanonical
from kgd.errors import Invalid, Limit
from kgd.model.node import Node, Relation, Source
from kgd.model.uri import Uri
from tests.codec.made import data, json_values, lines, nodes


def same(one: Any, two: Any) -> bool:
    """Equal in value and type: 1, 1.0 and True differ."""
    if isinstance(one, dict) and isinstance(two, dict):
        return list(one) == list(two) and all(same(one[k], two[k]) for k in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(same, one, two))
    return type(one) is type(two) and repr(one) == repr(two)


def by_ruamel(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


values = st.dictionaries(st.sampled_from(["uri", "a", "data"]), json_values(), min_size=1, max_size=3)


def sorted_keys(value: Any, top: bool = True) -> Any:
    if isinstance(value, dict):
        return {k: sorted_keys(value[k], False) for k in (value if top else sorted(value))}
    return [sorted_keys(item, False) for item in value] if isinstance(value, list) else value


@pytest.mark.slow
@pytest.mark.requirement("E21")
@given(values)
def test_written_values_read_back_the_same_here_and_in_ruamel(value: dict[str, Any]) -> None:
    text = canonical.dump(value)
    read = canonical.load(text)
    assert same(read, sorted_keys(value))
    assert same(read, by_ruamel(text))
    assert canonical.dump(read) == text


@pytest.mark.slow
@settings(max_examples=300)
@given(values)
def test_written_values_read_back_the_same_three_hundred_times(value: dict[str, Any]) -> None:
    text = canonical.dump(value)
    assert same(canonical.load(text), by_ruamel(text))


@given(lines())
@example("a\n \nb\n")
@example("a  \nb\n")
@example("\ta\n")
@example("a\n\tb\n\t\n")
@example("a\n\n\n")
@example("# a\n")
@example("---\na\n")
@example("a\r\nb")
@example("ends in blanks \n  \n")
@example("https://example.com/#a: b")
def test_any_text_survives_as_a_value_and_in_a_list(text: str) -> None:
    value = {"a": text, "b": [text, [text]], "c": {"d": text}}
    written = canonical.dump(value)
    assert same(canonical.load(written), value)
    assert same(by_ruamel(written), value)


def test_prose_is_a_literal_block_and_odd_text_a_json_string() -> None:
    assert canonical.dump({"a": "one\n\ttwo  \n\nthree\n"}) == "a: |\n  one\n  \ttwo  \n\n  three\n"
    assert canonical.dump({"a": "one\ntwo"}) == "a: |-\n  one\n  two\n"
    assert canonical.dump({"a": "one\n\n"}) == "a: |+\n  one\n\n"
    assert canonical.dump({"a": " one\ntwo\n"}) == 'a: " one\\ntwo\\n"\n'
    assert canonical.dump({"a": "one\r\ntwo\n"}) == 'a: "one\\r\\ntwo\\n"\n'
    assert canonical.dump({"a": "\x85\u2028\ufeff"}) == 'a: "\\u0085\\u2028\\ufeff"\n'


@pytest.mark.parametrize(
    "word",
    [
        "no",
        "Yes",
        "ON",
        "null",
        "True",
        "y",
        "~",
        "010",
        "1e3",
        "1:30",
        "2026-11-20",
        "",
        "-",
        "a: b",
        "a #b",
        "a:",
        "<<",
        "=",
    ],
)
def test_a_word_with_another_meaning_to_some_reader_is_quoted(word: str) -> None:
    assert canonical.dump({"a": word}) == f'a: "{word}"\n'


MUTATIONS = [
    "a: ",
    "b: ",
    "- ",
    "\n",
    "  ",
    " ",
    "|\n",
    "|-\n",
    "|+\n",
    "'",
    '"',
    '\\"',
    "\\n",
    "\\ud83d\\ude00",
    "x",
    "no",
    "1",
    "0.5",
    "-3",
    "true",
    "null",
    "Null",
    "~",
    ":",
    "#",
    " #",
    "é",
    "[]",
    "{}",
    "😀",
    "&x",
    "*x",
    "!t",
    "k: v\n",
    "  y\n",
    "\n\n",
    "c:\n",
    "- d: e\n",
    "  f: g\n",
    "1e3",
    "1e+16",
    "010",
    "-0",
    "2026-11-20",
    "?",
    '? "',
    ",",
    "---\n",
    "...\n",
    "\t",
    "\x85",
    "\u2028",
    "\ufeff",
    "a.b",
    "=",
    "<<: ",
    "%",
    "@",
    "`",
    ">\n",
    "- - ",
    "/",
    "_",
    "\r",
    "\x00",
    "\uffff",
    '"a b": ',
    "  - ",
    "9" * 19,
    "0.10",
    "\\u00e9",
    " \n",
]


def mutated(base: list[str], count: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    out = []
    for i in range(count):
        if i % 4 == 0:
            out.append("a: " + "".join(chance.choices(MUTATIONS, k=chance.randint(1, 8))) + "\n")
            continue
        text = chance.choice(base)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(text) + 1)
            text = text[:at] + chance.choice(MUTATIONS) + text[at + chance.randint(0, 3) :]
        out.append(text)
    return out


NODE = Node(
    uri=Uri("concept://ws/services/auth"),
    type="note",
    name="Auth service",
    summary="Signs: tokens",
    content="One\n\n\ttwo\n  three\n",
    tags=("auth", "no", "a b"),
    data={"a": 1, "b b": [1.5, "x\ny\n", {"c": None, "d": []}, [["z"], "w"]], "e": {}, "f": "#"},
    source=Source("page", "7"),
    aliases=(Uri("concept://ws/old"),),
    relations=(
        Relation("depends_on", Uri("concept://ws/a"), 0.5),
        Relation("is: a", Uri("https://x/#b"), 0, {"why": "k\n"}),
    ),
)

BASES = [
    documents.encode(NODE).decode(),
    documents.encode(Node(Uri("concept://ws/a"), content="a\n", tags=("x",), data={"k": "v"})).decode(),
    canonical.dump(
        {"a": [[1, [2]], [{"b": 1, "c": [3]}]], "d": {"e": {"f": "g\n\nh"}}, "k" * 1200: {"x": 1}, "q: " * 400: [1]}
    ),
]


def check_against_ruamel(text: str) -> bool:
    try:
        value = canonical.load(text)
    except NotCanonical:
        return False
    assert same(value, by_ruamel(text)), repr(text)
    return True


@pytest.mark.slow
def test_accepted_text_means_the_same_to_ruamel() -> None:
    accepted = sum(map(check_against_ruamel, mutated(BASES, 3000, seed=7)))
    assert accepted > 300, "the mutations must not all be refused"


@pytest.mark.slow
def test_accepted_text_means_the_same_to_ruamel_in_5_000_documents() -> None:
    accepted = sum(map(check_against_ruamel, mutated(BASES, 5_000, seed=11)))
    assert accepted > 500


@pytest.mark.slow
@pytest.mark.requirement("E1")
@given(nodes())
def test_ruamel_reads_every_node_file_as_the_strict_parser_does(node: Node) -> None:
    text = documents.encode(node).decode()
    assert same(canonical.load(text), by_ruamel(text))


NOT_CANONICAL = [
    "",
    "\n",
    "a: 1",
    "a: 1\n\n",
    "a:\n",
    "a: \n",
    "a:  1\n",
    "# a\na: 1\n",
    "a: 1 # b\n",
    "---\na: 1\n",
    "- a\n",
    "a: 'b'\n",
    "a: [1]\n",
    "a: 1\na: 1\n",
    " a: 1\n",
    "a: 0x1\n",
    "a: +1\n",
    "a: 01\n",
    "a: -0\n",
    "a: 1.\n",
    "a: 0.50\n",
    "a: 1e3\n",
    "a: True\n",
    "a: ~\n",
    'a: "\\u0061"\n',
    'a: "\\/"\n',
    'a: "\\ud83d\\ude00"\n',
    'a: "b"c"\n',
    '"a": 1\n',
    "a:\n- 1\n -2\n",
    "a:\n  - 1\n",
    "a: |\n  b\n   \n",
    "a: |\n b\n",
    "a: |\n\n  b\n",
    "a: >\n  b\n",
    "a: |2\n  b\n",
    "a: |-\n  b\n\n",
    "a: |+\n  b\n",
    "no: 1\n",
    "a\tb: 1\n",
    "a: b\tc\n",
    "a: b \n",
    "a:\n   b: 1\n",
    '? "a"\n: 1\n',
    "a: 9223372036854775808\n",
    "a: .inf\n",
    "a: b\r\n",
    "a: |\n  \n",
    "a: {}\n  b: 1\n",
]


@pytest.mark.parametrize("text", NOT_CANONICAL)
def test_anything_but_the_one_form_is_not_canonical(text: str) -> None:
    with pytest.raises(NotCanonical):
        canonical.load(text)


UNSTORABLE: list[dict[Any, Any]] = [
    {"a": float("nan")},
    {"a": float("inf")},
    {"a": 2**63},
    {"a": "\ud800"},
    {"a": frozenset()},
    {"a": b"x"},
    {"a\nb": 1},
    {"a\u202e": 1},
    {"a": {1: 2}},
    {"a": {1: 2, "b": 3}},
    {1: 2},
]


@pytest.mark.parametrize("value", UNSTORABLE, ids=repr)
def test_values_outside_of_the_form_are_refused_on_writing(value: dict[Any, Any]) -> None:
    with pytest.raises(Invalid):
        canonical.dump(value)


def test_depth_is_limited_when_written_and_when_read() -> None:
    deep: Any = 1
    for _ in range(15):
        deep = [deep]
    text = canonical.dump({"a": deep})
    assert canonical.load(text) == {"a": deep}
    with pytest.raises(Limit):
        canonical.dump({"a": [deep]})
    with pytest.raises(NotCanonical):
        canonical.load(canonical.dump({"a": [deep]}, depth=17))


@given(data())
def test_equal_data_has_equal_bytes_in_any_order_of_its_keys(value: dict[str, Any]) -> None:
    def turned(item: Any) -> Any:
        if isinstance(item, dict):
            return {k: turned(item[k]) for k in reversed(list(item))}
        return [turned(i) for i in item] if isinstance(item, list) else item

    one, two = Node(Uri("concept://ws/a"), data=value), Node(Uri("concept://ws/a"), data=turned(value))
    assert documents.encode(one) == documents.encode(two)


@given(st.text(max_size=80))
def test_the_strict_parser_never_breaks_on_garbage(text: str) -> None:
    try:
        value = canonical.load(text)
    except NotCanonical:
        return
    try:
        assert same(value, by_ruamel(text))
    except YAMLError as error:
        raise AssertionError(repr(text)) from error
