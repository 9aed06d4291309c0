"""A node becomes bytes and the bytes become the same node, by any author."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.codec import canonical, documents
from kgd.codec.documents import glance, ordinary
from kgd.errors import Invalid, KgdError, Limit, Refused
from kgd.model.conflict import WHOLE, Conflict, FieldConflict, canonical_json
from kgd.model.node import Node, Relation
from kgd.model.uri import Uri
from tests.codec.made import json_values, nodes, uris
from tests.codec.test_canonical_form import BASES, mutated

ROOT = Path(__file__).resolve().parents[2]

EXAMPLE = b"""\
uri: concept://infra/services/auth
name: Auth service
summary: Issues and verifies the session tokens of all public APIs
tags:
- auth
- jwt
content: |
  Tokens are signed by the key service; never cache a key longer than its ttl.
relations:
- type: depends_on
  target: "concept://infra/services/keys"
  weight: 0.5
- type: implemented_in
  target: "file://infra/src/auth/session.py"
data:
  importance: high
"""


@pytest.mark.slow
@pytest.mark.requirement("U1")
@pytest.mark.requirement("E1")
@given(nodes())
def test_every_node_reads_back_from_its_bytes(node: Node) -> None:
    data = documents.encode(node)
    read = documents.decode(data, expect=node.uri)
    assert read == node
    assert canonical_json(dict(read.data)) == canonical_json(dict(node.data)), "1, 1.0 and true stay apart"
    assert documents.encode(read) == data


@pytest.mark.requirement("U1")
def test_the_example_of_the_format_is_what_kgd_writes() -> None:
    node = documents.decode(EXAMPLE)
    assert documents.encode(node) == EXAMPLE
    assert node.relations[0] == Relation("depends_on", Uri("concept://infra/services/keys"), 0.5)
    assert node.type == "concept"


@pytest.mark.requirement("E3")
def test_a_relation_keeps_its_weight_and_data_and_is_written_once() -> None:
    target = Uri("concept://ws/b")
    node = Node(Uri("concept://ws/a"), relations=(Relation("uses", target, 0.0, {"since": 2024}),))
    assert b'- type: uses\n  target: "concept://ws/b"\n  weight: 0\n  data:\n    since: 2024\n' in documents.encode(
        node
    )
    assert documents.decode(documents.encode(node)) == node
    plain = Node(Uri("concept://ws/a"), relations=(Relation("uses", target),))
    assert b"weight" not in documents.encode(plain), "1 is the default"
    twice = documents.encode(node) + b'- type: uses\n  target: "concept://ws/b"\n'
    with pytest.raises(Invalid, match="twice"):
        documents.decode(twice)


@pytest.mark.requirement("E21")
def test_any_type_label_and_any_data_are_stored() -> None:
    node = Node(Uri("concept://ws/offsite"), type="board meeting", data={"participants": ["Åsa", "李"], "cost": 12.5})
    assert documents.decode(documents.encode(node)) == node


@pytest.mark.slow
@given(nodes())
def test_the_lean_reading_is_a_part_of_the_whole(node: Node) -> None:
    lean = glance(documents.encode(node))
    if lean is not None:  # unusual files are read whole
        assert lean[:6] == (node.uri, node.type, node.name, node.summary, node.tags, node.aliases)
        assert lean.relations == tuple((r.type, r.target, r.weight) for r in node.relations)


def test_the_lean_reading_accepts_nothing_that_the_whole_refuses() -> None:
    quick = 0
    for text in mutated([EXAMPLE.decode(), *BASES[:2]], 3000, seed=3):
        seen = glance(text.encode("utf-8", "replace"))
        if seen is not None:
            quick += 1
            node = documents.decode(text.encode())
            assert seen[:6] == (node.uri, node.type, node.name, node.summary, node.tags, node.aliases), text
            assert seen.relations == tuple((r.type, r.target, r.weight) for r in node.relations), text
    assert quick > 100, "the quick way must be taken at all"


@pytest.mark.slow
@given(nodes())
def test_the_quick_reading_of_a_whole_node_gives_that_node(node: Node) -> None:
    assert ordinary(documents.encode(node)) in (None, node)


def test_the_quick_reading_of_a_whole_node_equals_the_guarded_reading() -> None:
    quick = 0
    for text in mutated([EXAMPLE.decode(), *BASES[:2]], 3000, seed=4):
        node = ordinary(text.encode("utf-8", "replace"))
        if node is not None:
            quick += 1
            assert documents.decode(text.encode() + b"# a comment is never read the quick way\n") == node, text
    assert quick > 100, "the quick way must be taken at all"


def test_an_ordinary_file_is_read_the_quick_way() -> None:
    assert glance(EXAMPLE) is not None
    assert ordinary(EXAMPLE) == documents.decode(EXAMPLE + b"# a comment is never read the quick way\n")


def test_content_of_one_line_is_read_the_quick_way_too() -> None:
    node = Node(Uri("concept://ws/a"), content="Leases end after ten minutes.")
    assert ordinary(documents.encode(node)) == node


def test_canonical_files_are_read_without_the_yaml_library() -> None:
    """It costs 60 ms, which the merge driver and the hooks would pay for every file."""
    program = (
        "import sys; from kgd.codec import documents as d, settings as s; n = d.decode(sys.stdin.buffer.read());"
        "d.encode(n); d.rewrite(None, n); s.decode_settings(s.first_files('ws')['kgd.yaml']);"
        "print('ruamel.yaml' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], input=EXAMPLE, cwd=ROOT, capture_output=True, check=True)
    assert done.stdout == b"False\n"


@pytest.mark.slow
@pytest.mark.requirement("B11")
@given(nodes())
def test_a_person_may_write_the_same_node_in_another_form(node: Node) -> None:
    """As JSON, which is YAML, and behind a comment, the values are the same."""
    values = canonical.load(documents.encode(node).decode())
    text = "# mine\n{" + ", ".join(f"{canonical.quote(k)}: {_flow(v)}" for k, v in values.items()) + "}\n"
    assert documents.decode(text.encode()) == node


def _flow(value: object) -> str:
    if isinstance(value, str):
        return canonical.quote(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{canonical.quote(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return canonical.dump({"k": value})[3:-1]


def test_hand_written_values_follow_the_core_schema() -> None:
    text = b"""\
# by hand
uri: concept://ws/a
data: {date: 2026-11-20, ten: 010, octal: 0o10, hex: 0x1F, under: 1_000, exp: 1e3, time: 12:30:45, no: yes, on: off,
  nothing: ~, empty: , dot: 1., half: .5, plus: +1, quoted: '1', null: "x"}
"""
    with pytest.raises(Refused):
        documents.decode(text)
    assert documents.decode(text.replace(b', null: "x"', b"")).data == {
        "date": "2026-11-20",
        "ten": 10,
        "octal": 8,
        "hex": 31,
        "under": "1_000",
        "exp": 1000.0,
        "time": "12:30:45",
        "no": "yes",
        "on": "off",
        "nothing": None,
        "empty": None,
        "dot": 1.0,
        "half": 0.5,
        "plus": 1,
        "quoted": "1",
    }


def test_an_empty_field_is_an_absent_one_and_windows_line_ends_are_read() -> None:
    text = (
        "\ufeffuri: concept://ws/a\r\nname:\r\ntags:\r\nrelations: []\r\ndata:\r\ncontent: |\r\n  a\r\n  b\r\n".encode()
    )
    assert documents.decode(text) == Node(Uri("concept://ws/a"), content="a\nb\n")


def test_a_reserved_key_is_named_with_its_line() -> None:
    for text in (b"uri: concept://ws/a\nopen: x\n", b"# c\nuri: concept://ws/a\nopen: x\n"):
        with pytest.raises(Invalid) as caught:
            documents.decode(text, at="nodes/concept/a.yaml")
        line = text.count(b"\n")
        assert caught.value.at == f"nodes/concept/a.yaml:{line}"
        assert caught.value.message == "the key 'open' is reserved"


def test_the_file_of_another_node_is_refused() -> None:
    with pytest.raises(Invalid) as caught:
        documents.decode(EXAMPLE, at="nodes/concept/x.yaml", expect=Uri("concept://infra/x"))
    assert caught.value.at == "nodes/concept/x.yaml:1"


def nested(levels: int) -> object:
    return [nested(levels - 1)] if levels else 1


@pytest.mark.slow
def test_a_node_that_the_guard_would_refuse_is_never_written() -> None:
    uri = Uri("concept://ws/a")
    for node in (
        Node(uri, content="x" * 300_000),
        Node(uri, relations=tuple(Relation("t", Uri(f"concept://ws/{i}")) for i in range(4000))),
        Node(uri, data={"k" * 257: 1}),
        Node(uri, data={"a": nested(15)}),
    ):
        with pytest.raises(Limit):
            documents.encode(node)
    many = Node(uri, relations=tuple(Relation("t", Uri(f"concept://ws/{i}")) for i in range(3200)))
    deep = Node(uri, data={"a": nested(14)})
    for node in (many, deep):
        data = documents.encode(node)
        assert documents.decode(data) == node
        assert documents.decode(b"# c\n" + data) == node, "what fits the strict parser fits the guard"


conflicts = st.builds(
    lambda uri, fields, shown: Conflict(uri, fields, {n: shown % len(f.sides) for n, f in fields.items()}),
    uris(),
    st.dictionaries(
        st.sampled_from(["name", WHOLE, "data/a b", "relations/x: y/https:~1~1h~1" + "p" * 1500, "content"]),
        st.builds(
            lambda base, sides: FieldConflict(base, tuple(sorted(sides, key=canonical_json))),
            json_values(),
            st.lists(json_values(), min_size=2, max_size=3),
        ),
        min_size=1,
        max_size=3,
    ),
    st.integers(0, 2),
)


@given(conflicts)
def test_every_conflict_reads_back_from_its_bytes(conflict: Conflict) -> None:
    data = documents.encode_conflict(conflict)
    read = documents.decode_conflict(data)
    assert read == conflict
    assert read.digest == conflict.digest
    assert documents.encode_conflict(read) == data


def test_a_conflict_of_full_files_fits_into_its_record() -> None:
    sides = tuple(sorted("xyz"[i] * 250_000 + "\n" for i in (0, 1)))
    conflict = Conflict(Uri("concept://ws/a"), {"content": FieldConflict("z" * 250_000, sides)}, {"content": 1})
    assert documents.decode_conflict(documents.encode_conflict(conflict)) == conflict


@pytest.mark.parametrize(
    "text",
    [
        b"uri: concept://ws/a\n",
        b"uri: concept://ws/a\nfields: {}\n",
        b"uri: concept://ws/a\nfields: {name: {base: a, side: [b]}}\n",
        b"uri: concept://ws/a\nfields: {name: {base: a, sides: [b, c]}}\nshown: {name: 2}\n",
        b"uri: concept://ws/a\nfields: {name: {base: a, sides: [b, c]}}\nshown: {other: 0}\n",
        b"uri: concept://ws/a\nfields: {name: {base: a, sides: [b, c], commits: [x]}}\n",
        b"uri: concept://ws/a\nfields: {name: {base: a, sides: [b, c]}}\nkgd_decided: b\n",
        b"uri: there\nfields: {name: {base: a, sides: [b, c]}}\n",
        b"uri: concept://ws/a\nfields: {uri: {base: base, sides: [b, c]}}\n",
        b"uri: concept://ws/a\nfields: {twin: {base: base, sides: [b, c]}}\n",
        b"[" * 4000,
    ],
)
def test_a_bad_conflict_record_is_refused(text: bytes) -> None:
    with pytest.raises(KgdError) as caught:
        documents.decode_conflict(text, at="conflicts/concept/a/x.yaml")
    assert caught.value.at.startswith("conflicts/concept/a/x.yaml:")


@pytest.mark.slow
@given(nodes(), st.text(max_size=30))
def test_a_changed_name_changes_its_line_alone(node: Node, name: str) -> None:
    """One field, one place in the file: two people who edit different fields do not meet in a line merge."""
    try:
        other = replace(node, name=name.replace("\n", " "))
        before, after = documents.encode(node).splitlines(), documents.encode(other).splitlines()
    except Invalid:
        return
    assert [line for line in before if not line.startswith(b"name:")] == [
        line for line in after if not line.startswith(b"name:")
    ]


@pytest.mark.parametrize(
    ("relations", "line"),
    [
        ("- type: uses\n  target: concept://ws/b\n- type: uses\n  target: services/auth\n", 6),
        ("- type: uses\n  target: concept://ws/b\n  weight: 3\n- type: uses\n  target: concept://ws/c\n", 5),
        ("    - type: uses\n      target: concept://ws/b\n    - target: concept://ws/c\n", 5),
        ("- type: uses\n  target: concept://ws/b\n  data:\n    k: v\n- type: a\n  target: b\n", 8),
    ],
)
def test_an_error_in_a_relation_is_named_with_its_own_line(relations: str, line: int) -> None:
    text = f"uri: concept://ws/a\nrelations:\n{relations}"
    with pytest.raises(KgdError) as refused:
        documents.decode(text.encode(), at="a.yaml")
    assert refused.value.at == f"a.yaml:{line}"
