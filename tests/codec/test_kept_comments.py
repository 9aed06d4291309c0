"""A person's comments survive when kgd next writes that node."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgd.codec import documents
from kgd.model.node import Node, Relation
from kgd.model.uri import Uri
from tests.codec.hostile import DEEP, MANY, TRICKS, Hostile
from tests.codec.made import nodes

BY_HAND = b"""\
# Ask Ada before you change this.
uri: concept://infra/services/auth   # never change
name: 'Auth service'

# what lists show
summary: Issues tokens
tags:   # ours
  - jwt    # json web tokens
  - auth
# the long story
content: >
  Folded # not a comment
  text.

# who uses what
relations:
- {type: depends_on, target: "concept://infra/services/keys", weight: 0.5}  # hot path
# second
- type: implemented_in
  target: "file://infra/src/auth/session.py"  # moved in may
data:
  # inner
  importance: high  # really
  other: [1, 2]
# the end
"""

FEWER = settings(max_examples=settings().max_examples // 3)
"""A round trip is slow; in a soak these are still many."""

OWN_LINES = [line.strip() for line in BY_HAND.splitlines() if line.strip().startswith(b"#")]


@pytest.mark.requirement("B11")
def test_a_changed_field_leaves_every_comment_and_the_persons_form() -> None:
    node = replace(documents.decode(BY_HAND), summary="Issues and checks tokens")
    written = documents.rewrite(BY_HAND, node)
    assert written == BY_HAND.replace(b"Issues tokens", b"Issues and checks tokens").replace(
        b"  - jwt    # json web tokens\n  - auth", b"- jwt      # json web tokens\n- auth"
    ).replace(b"content: >\n  Folded # not a comment\n  text.\n", b"content: >\n  Folded # not a comment\n  text.\n")
    assert documents.decode(written) == node


@pytest.mark.slow
@pytest.mark.requirement("B11")
@FEWER
@given(nodes())
def test_any_change_keeps_every_comment_line_and_writes_exact_values(node: Node) -> None:
    node = replace(node, uri=Uri("concept://infra/services/auth"))
    written = documents.rewrite(BY_HAND, node)
    assert documents.decode(written) == node
    for comment in OWN_LINES:
        assert comment in written


@FEWER
@given(st.lists(st.sampled_from(["tags", "relations", "data", "content", "name", "summary"]), unique=True))
def test_comments_outlive_the_fields_they_stand_before(cleared: list[str]) -> None:
    empty: dict[str, object] = {"tags": (), "relations": (), "data": {}, "content": "", "name": "", "summary": ""}
    node = replace(documents.decode(BY_HAND), **{name: empty[name] for name in cleared})  # type: ignore[arg-type]
    written = documents.rewrite(BY_HAND, node)
    assert documents.decode(written) == node
    for comment in OWN_LINES:
        assert comment in written


def test_a_comment_behind_an_entry_goes_with_the_entry() -> None:
    node = documents.decode(BY_HAND)
    written = documents.rewrite(BY_HAND, replace(node, tags=("auth", "new")))
    assert b"json web tokens" not in written
    written = documents.rewrite(BY_HAND, node.with_relation(Relation("uses", Uri("concept://infra/a"))))
    assert b"# hot path" in written
    assert b"# moved in may" in written


def test_a_rewrite_without_a_change_changes_nothing() -> None:
    assert documents.rewrite(BY_HAND, documents.decode(BY_HAND)) == BY_HAND


@pytest.mark.slow
@FEWER
@given(nodes())
def test_a_rewrite_is_stable(node: Node) -> None:
    node = replace(node, uri=Uri("concept://infra/services/auth"))
    once = documents.rewrite(BY_HAND, node)
    assert documents.rewrite(once, node) == once


@pytest.mark.slow
@FEWER
@given(nodes())
def test_a_file_without_comments_is_written_canonically(node: Node) -> None:
    without = b"uri:   concept://ws/x\ntags: [a, b]\n"
    for previous in (None, without, documents.encode(node)):
        assert documents.rewrite(previous, node) == documents.encode(node)


@pytest.mark.slow
@pytest.mark.parametrize("case", [*DEEP, *TRICKS, *MANY[-6:]], ids=lambda c: c.name)
def test_a_hostile_file_is_replaced_without_harm(case: Hostile) -> None:
    node = Node(Uri("concept://ws/a"), tags=("x",), data={"k": [1]})
    began = time.process_time()
    written = documents.rewrite(b"# mine\n" + case.data[:200_000], node)
    assert time.process_time() - began < 1.0
    assert documents.decode(written) == node


def test_comments_of_a_broken_file_stay_above_the_canonical_form() -> None:
    node = Node(Uri("concept://ws/a"), name="A")
    written = documents.rewrite(b"# mine\nuri: concept://ws/a\nname: [\n# yours\n", node)
    assert written == b"# mine\n# yours\nuri: concept://ws/a\nname: A\n"
