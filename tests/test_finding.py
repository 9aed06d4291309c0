"""The evaluation sets of `bench.finding` are consistent, and the bench asks their questions."""

from __future__ import annotations

import hashlib
import tarfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from bench.finding import sets
from bench.finding.__main__ import Report, measured
from bench.finding.checking import ALL, SETS, wrong_in_set, wrong_in_tree
from bench.finding.prose import pages_of, write_prose
from bench.finding.sets import Question, Set
from bench.finding.trees import TREES, Beside, Tree, unpack, unpack_beside
from kgd.ingest.chunks import chunks


@pytest.mark.parametrize("found", [pytest.param(found, id=f"{tree.name}{name}") for tree, name, found in ALL])
def test_every_answer_exists_and_questions_set_apart_share_no_word_with_it(found: Set) -> None:
    assert list(wrong_in_set(found)) == []


def test_the_sets_have_the_promised_sizes() -> None:
    asked = [question for tree in TREES for question in sets.read(tree).questions]
    counts = Counter(question.kind for question in asked)
    assert counts == {"knowledge": 60, "identifiers": 24, "errors": 16, "files": 20, "nothing": 20}
    assert sum(question.apart for question in asked) >= 20


@pytest.mark.slow
def test_no_question_is_in_two_sets() -> None:
    asked = [
        question.text for tree in TREES for which in SETS.values() for question in sets.read(tree, **which).questions
    ]
    assert len(asked) == len(set(asked))


SOURCE = """
/** Opens the drawer. The key turns twice, and the lamp goes out. */
export class Drawer {
  open(): void {
    throw new Error("the drawer is stuck");
  }
}
"""
SMALL = Set(
    "small",
    ({"uri": "gotcha:lamp", "name": "The lamp", "content": "Out when the key turns.", "cites": ["src/drawer.ts"]},),
    (
        Question("knowledge", "What about the lamp?", answer="gotcha:lamp"),
        Question("identifiers", "Drawer.open", paths=("src/drawer.ts",), symbol="Drawer.open"),
        Question("errors", "Error: the drawer is stuck", paths=("src/drawer.ts",)),
        Question("nothing", "airport"),
    ),
)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A tree of one file, already in its folder."""
    source = tmp_path / "package/src/drawer.ts"
    source.parent.mkdir(parents=True)
    source.write_text(SOURCE)
    with tarfile.open(tmp_path / "small.tgz", "w:gz") as packed:
        packed.add(tmp_path / "package", "package")
    digest = hashlib.sha256((tmp_path / "small.tgz").read_bytes()).hexdigest()
    return Tree("small", "small.tgz", digest, (), "package/src", "src", ".ts", "package/docs")


def test_a_missing_file_symbol_or_error_text_is_reported(tree: Tree, tmp_path: Path) -> None:
    unpack(tree, tmp_path / "small.tgz", tmp_path / "code")
    assert list(wrong_in_tree(tree, SMALL, tmp_path / "code")) == []
    missing = (
        Question("files", "where?", paths=("src/lamp.ts",)),
        Question("identifiers", "Lamp", paths=("src/drawer.ts",), symbol="Lamp"),
        Question("errors", "Error: the lamp is out", paths=("src/drawer.ts",)),
    )
    assert len(list(wrong_in_tree(tree, Set("small", (), missing), tmp_path / "code"))) == len(missing)


def test_documentation_and_tests_are_added_to_a_tree(tree: Tree, tmp_path: Path) -> None:
    beside = (Beside("package/src", "docs"), Beside("package/src/drawer.ts", "NOTES.md"))
    unpack_beside(replace(tree, beside=beside), tmp_path, tmp_path / "code")
    assert (tmp_path / "code/docs/drawer.ts").read_text() == (tmp_path / "code/NOTES.md").read_text() == SOURCE


@pytest.mark.slow
def test_a_tree_is_filled_and_asked(tree: Tree, tmp_path: Path) -> None:
    tokenizer = Tokenizer(WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = Whitespace()
    report: Report = measured(tree, SMALL, tmp_path, 3, tokenizer)
    first = [one for one in report.asked["search"] if one.question.kind in ("knowledge", "identifiers")]
    assert all(one.rank for one in first)
    assert any("FTS5 over whole files 100.0%" in line for line in report.lines())
    assert all(line.startswith("  ") for line in report.misses())


def test_prose_has_about_as_many_chunks_as_wanted(tree: Tree, tmp_path: Path) -> None:
    unpack(tree, tmp_path / "small.tgz", tmp_path / "code")
    pages = pages_of({"a/b.txt": "A sentence about the drawer. " * 40}, tmp_path / "code", ".ts")
    assert set(pages) == {"a-b", "src-drawer"}
    write_prose(tmp_path / "prose", pages, 20, 1)
    written = [chunks(file.read_text(), "markdown", file.stem) for file in (tmp_path / "prose").iterdir()]
    assert 10 <= sum(map(len, written)) <= 60
