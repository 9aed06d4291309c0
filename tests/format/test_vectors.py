"""kgd agrees with the vectors in docs/format/, which other programs are written against."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kgd.codec import documents, paths
from kgd.errors import KgdError
from kgd.model.fields import plain
from kgd.model.node import Node
from tests.format.node_files import node_files
from tests.format.vectors import FOLDER, Merger, merges, text_of

MERGES = json.loads((FOLDER / "merges.json").read_text())
NODES = json.loads((FOLDER / "nodes.json").read_text())
SIZE = 2_000_000


def read(file: dict[str, Any]) -> Node | None:
    """The node in the file of a vector; None where the file is refused."""
    try:
        node = documents.decode(file["text"].encode())
    except KgdError:
        return None
    return node if paths.path_of(node.uri) == file["path"] else None


@pytest.fixture(scope="module")
def merger(tmp_path_factory: pytest.TempPathFactory) -> Merger:
    return Merger(tmp_path_factory.mktemp("vectors"))


@pytest.mark.slow
def test_each_merge_of_the_vectors_gives_the_files_and_the_records_that_they_name(merger: Merger) -> None:
    assert len(MERGES) == 340
    for vector in MERGES:
        merged = merger.merged(vector["base"], vector["a"], vector["b"])
        assert merged == dict(sorted((vector["result"] | vector["records"]).items())), vector["name"]
        assert merger.merged(vector["base"], vector["b"], vector["a"]) == merged, vector["name"]


def test_each_file_of_the_vectors_is_read_or_refused_as_stated() -> None:
    assert len(NODES) == 240
    for file in NODES:
        node = read(file)
        assert (plain(node) if node else None) == file["node"], file["name"]
        assert node is None or documents.encode(node).decode() == file["canonical"], file["name"]


@pytest.mark.slow
def test_the_vectors_equal_the_generated_ones(tmp_path: Path) -> None:
    assert text_of(merges(tmp_path)) == (FOLDER / "merges.json").read_text(), "run python -m tests.format.vectors"
    assert text_of(node_files()) == (FOLDER / "nodes.json").read_text(), "run python -m tests.format.vectors"


def test_the_vectors_hold_every_kind_of_conflict_and_stay_small() -> None:
    records = [text for vector in MERGES for text in vector["records"].values()]
    fields = {next(iter(documents.decode_conflict(text.encode()).fields)).partition("/")[0] for text in records}
    assert {"node", "uri", "name", "content", "data", "relations", "source", "type", "memories"} <= fields
    assert any("round:" in text for text in records)
    assert {"license", "since", "a~1b"} <= fields
    assert any(documents.decode_conflict(text.encode()).others for text in records)
    assert sum(path.stat().st_size for path in FOLDER.glob("*.json")) < SIZE
