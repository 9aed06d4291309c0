"""Inadmissible files by hand: the line is named."""

from __future__ import annotations

import time

import pytest

from kgd.codec.paths import part_folder_of
from kgd.errors import Refused
from kgd.model.uri import Uri
from kgd.workspace.memory_files import Home
from kgd.workspace.writing.admission import check

KEY = "AKIA" + "ABCDEFGHIJKLMNOP"
HOME = Home("ws", frozenset(), lambda path: None)
RANDOM = "8fJ2kQ9zLm4Xw7Rt1Vb6Yc3Np5Hd0Gs"
NODE = "nodes/concept/a.yaml"
MEMORY = "memories/2026-11-20-a.md"
OWNED = "---\nid: decision://ws/a\ntype: decision\ndate: 2026-11-20\ntags: []\n---\n"

FILES = {
    "content": (NODE, f"uri: concept://ws/a\ncontent: |-\n  one\n\n  two\n  {KEY}\n", 6),
    "one-line": (NODE, f"uri: concept://ws/a\nname: A\nsummary: {KEY}\n", 3),
    "assigned": (NODE, f"uri: concept://ws/a\ndata:\n  at: night\n  password:\n    {RANDOM}\n", 5),
    "list": (NODE, f"uri: concept://ws/a\ntags:\n- one\n- {KEY.lower()}\ndata:\n  keys:\n  - none\n  - {KEY}\n", 8),
    "comment-before": (NODE, f"# {KEY} is an example\nuri: concept://ws/a\nname: A\nsummary: {KEY}\n", 4),
    "escaped": (NODE, f'uri: concept://ws/a\nname: A\nsummary: "\\x41{KEY[1:]}"\n', 3),
    "flow": (NODE, f"{{uri: concept://ws/a,\n  name: A, summary: {KEY}}}\n", 2),
    "known-form-below": (NODE, f"uri: concept://ws/a\ncontent: |-\n  token = {RANDOM}\ndata:\n  x: {KEY}\n", 3),
    "memory": (MEMORY, f"{OWNED}\nOne.\n\nTwo {KEY}.\n", 10),
}


@pytest.mark.parametrize(("path", "text", "line"), FILES.values(), ids=FILES)
def test_a_secret_is_reported_with_its_line(path: str, text: str, line: int) -> None:
    base = OWNED.encode() if path == MEMORY else None
    with pytest.raises(Refused) as refused:
        check(path, text.encode(), base, HOME)
    assert refused.value.at == f"{path}:{line}"
    assert KEY not in refused.value.message


def test_in_a_part_the_line_is_in_the_node_that_now_holds_the_secret() -> None:
    known = f"- uri: message://ws/t/1\n  content: {KEY}\n"
    path, base = _part(known)
    _, data = _part(known + f"- uri: message://ws/t/2\n  content: |\n    one\n    {KEY}\n")
    with pytest.raises(Refused) as refused:
        check(path, data, base, HOME)
    assert refused.value.at == f"{path}:7"


KNOWN = f"- uri: message://ws/t/2\n  content: {KEY}\n"
"""A node that is committed with its secret."""
NEW = KEY.replace("ABC", "XYZ")

PARTS = {
    "other-kind": (f"- uri: message://ws/t/1\n  content: |-\n    one\n    password = {RANDOM}\n{KNOWN}", 5),
    "same-node": (f"{KNOWN}  summary: {NEW}\n", 4),
    "uri-last": (f"- content: {NEW}\n  uri: message://ws/t/1\n{KNOWN}", 2),
    "flow": (f"{KNOWN}- {{content: {NEW}, uri: message://ws/t/3}}\n", 4),
    "comment": (f"{KNOWN}- uri: message://ws/t/3 # new\n  content: {NEW}\n", 5),
    "blank-lines": (KNOWN + "\n" * 60_000 + f"- {{uri: message://ws/t/3, content: {NEW}}}\n", 60_004),
}


@pytest.mark.parametrize(("nodes", "line"), PARTS.values(), ids=PARTS)
def test_in_a_part_the_line_of_another_secret_is_never_named(nodes: str, line: int) -> None:
    (path, base), (_, data) = _part(KNOWN), _part(nodes)
    began = time.process_time()
    with pytest.raises(Refused) as refused:
        check(path, data, base, HOME)
    assert refused.value.at == f"{path}:{line}"
    assert time.process_time() - began < 10


def _part(nodes: str) -> tuple[str, bytes]:
    return f"{part_folder_of(Uri('message://ws/t/1'))}/0001.yaml", f"nodes:\n{nodes}".encode()
