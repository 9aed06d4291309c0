"""Check the evaluation sets against the pinned trees: `python -m bench.finding.checking FOLDER`."""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.finding.sets import Question, Set, read, words_of
from bench.finding.stems import stems
from bench.finding.trees import AGENTS, TREES, UNSEEN, Tree, fetched, unpack

WORD = re.compile(r"\w+")
SETS: dict[str, dict[str, Any]] = {
    "": {},
    ", hold-out": {"holdout": True},
    ", further": {"further": True},
    ", near": {"near": True},
}
WITH_OWN_NODES = {"unseen": UNSEEN, "agents": AGENTS}
"""Folders of sets with their own nodes, and their trees."""
ALL = [
    *((tree, name, read(tree.name, **which)) for tree in TREES.values() for name, which in SETS.items()),
    *((tree, f", {own}", read(tree.name, own=own)) for own, trees in WITH_OWN_NODES.items() for tree in trees.values()),
]
DEFINITION = r"(?:class|def|function|interface|const|type|enum)\s+{0}\b|\b[\w<>\[\].]+\s+{0}\s*\(|^\s*{0}\s*\("


def wrong_in_set(found: Set) -> Iterator[str]:
    """Problems within a set, one line each."""
    nodes = {node["uri"]: node for node in found.nodes}
    if len(nodes) != len(found.nodes):
        yield f"{found.tree}: two nodes share a URI"
    for node in found.nodes:
        if (molecule := node.get("molecule")) and molecule not in nodes:
            yield f"{found.tree}: {node['uri']} is in {molecule}, which is missing"
    for question in found.questions:
        if question.answer and question.answer not in nodes:
            yield f"{found.tree}: {question.text!r} is answered by {question.answer}, which is missing"
        elif question.apart and (common := stems(question.text) & stems(words_of(nodes[question.answer]))):
            yield f"{found.tree}: {question.text!r} shares {', '.join(sorted(common))} with {question.answer}"


def wrong_in_tree(tree: Tree, found: Set, code: Path) -> Iterator[str]:
    """What a set names and the code lacks, one line each."""
    for node in found.nodes:
        for path in node.get("cites", ()):
            if not (code / path).is_file():
                yield f"{tree.name}: {node['uri']} cites {path}, which is missing"
        for pattern in node.get("paths", ()):
            if not any(code.glob(pattern if not pattern.endswith("**") else f"{pattern}/*")):
                yield f"{tree.name}: no file matches {pattern} of {node['uri']}"
    for question in found.questions:
        yield from _wrong_files(tree, question, code)


def _wrong_files(tree: Tree, question: Question, code: Path) -> Iterator[str]:
    for path in question.paths:
        if not (code / path).is_file():
            yield f"{tree.name}: {question.text!r} is answered by {path}, which is missing"
        elif name := question.symbol.rpartition(".")[2]:
            if not re.search(DEFINITION.format(re.escape(name)), (code / path).read_text(), re.MULTILINE):
                yield f"{tree.name}: {path} does not define {name}"
        elif question.kind == "errors" and not _quotes(question.text, (code / path).read_text()):
            yield f"{tree.name}: {path} does not hold the text of {question.text!r}"


def _quotes(error: str, source: str) -> bool:
    """Whether three consecutive words of the error text are in the source."""
    words, text = WORD.findall(error), f" {' '.join(WORD.findall(source))} "
    return any(f" {' '.join(words[at : at + 3])} " in text for at in range(len(words) - 2))


def main() -> int:
    folder = Path(sys.argv[1])
    failed = False
    for tree, name, found in ALL:
        archive = fetched(tree, folder)
        with tempfile.TemporaryDirectory() as place:
            code = Path(place)
            unpack(tree, archive, code)
            for line in (*wrong_in_set(found), *wrong_in_tree(tree, found, code)):
                failed = True
                print(line)
            counts = Counter(one.kind for one in found.questions)
            apart = sum(one.apart for one in found.questions)
            print(
                f"{tree.name}{name}: {len(found.nodes)} nodes, {dict(counts)}, "
                f"{apart} knowledge questions without a common word"
            )
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
