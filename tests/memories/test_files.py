"""The bytes of a memory: any written content is read back, and new front matter leaves the rest."""

from __future__ import annotations

import contextlib

from hypothesis import example, given
from hypothesis import strategies as st

from kgd.codec import front_matter, paths
from kgd.errors import KgdError
from kgd.model.node import Node
from kgd.workspace import memory_files
from kgd.workspace.memory_files import Home
from kgd.workspace.writing import admission
from tests.builders import uri

OWNER = "decision://ws/a"
labels = st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1, max_size=20)
prose = st.text(st.characters(codec="utf-8"), max_size=200)
nodes = st.builds(Node, st.just(uri(OWNER)), st.sampled_from(["decision", "gotcha", "Other"]), tags=st.lists(labels))
COMMENTED = f"---\n# why\nid: {OWNER}  # mine\ntype: decision\ntags: [b, a]\nother: {{x: 1}}\n---\n\n# T\n---\nx\r\n"


@given(nodes, prose)
def test_written_memories_are_read_back(node: Node, text: str) -> None:
    memory = front_matter.decode(memory_files.written(node, None, text, 0)) if "\0" not in text else None
    if memory is not None:
        assert memory.text == text.strip("\n")
        assert memory_files.belongs(memory, node)
        assert set(memory.tags) == set(node.tags)


@given(st.one_of(st.binary(max_size=200), st.binary(max_size=100).map(lambda data: b"---\n" + data + b"\n---\nx")))
@example(b"---\n---\n")
@example(b"\xef\xbb\xbf---\r\nid: a\r\n---\r\nx")
def test_any_bytes_are_a_memory_or_are_refused_with_a_reason(data: bytes) -> None:
    with contextlib.suppress(KgdError):
        memory = front_matter.decode(data, at="memories/a.md")
        assert front_matter.decode(front_matter.with_head(memory.head, memory.prose)) == memory
    with contextlib.suppress(KgdError):
        admission.admit_memory("memories/a.md", data, None, Home("ws", frozenset(), lambda path: None))


@given(nodes, st.one_of(st.just(COMMENTED), prose.map(lambda text: f"---\nid: {OWNER}\ntags: [x]\n---\n{text}")))
def test_a_front_matter_that_follows_its_node_leaves_prose_other_keys_and_comments(node: Node, text: str) -> None:
    memory = front_matter.decode(text.encode())
    after = front_matter.decode(memory_files.mirrored(text.encode(), memory, node))
    assert after.prose == memory.prose
    assert {tag.lower() for tag in after.tags} == {tag.lower() for tag in node.tags}
    assert after.front.get("other") == memory.front.get("other")
    if text == COMMENTED:
        assert "# why" in after.head
    again = memory_files.mirrored(front_matter.with_head(after.head, after.prose), after, node)
    assert again == front_matter.with_head(after.head, after.prose)


@given(nodes, st.integers(-(10**12), 10**15))
def test_a_file_is_named_by_date_and_topic_and_never_taken_twice(node: Node, now: int) -> None:
    taken: set[str] = set()
    for _ in range(4):
        path = memory_files.new_path(node, now, taken.__contains__)
        assert paths.is_memory_path(path)
        assert path not in taken
        taken.add(path)
