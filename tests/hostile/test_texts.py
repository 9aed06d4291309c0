"""Machine-made texts: every reader of text ends within a moment.

A thread inside a regular expression or Python's parser blocks all other threads, so the whole daemon.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from kgd.areas.patterns import Matcher, normalise
from kgd.codec import front_matter
from kgd.errors import Limit
from kgd.exchange import Reading, orchestrator_journal, rules, vault
from kgd.freshness.code import text_of
from kgd.memories.keywords import keywords
from kgd.memories.tasks import parsed, read_paths
from kgd.model import wiki_links
from kgd.model.node import Node
from kgd.model.uri import Uri

SIZE = 40_000
SECONDS = 0.8
"""Seconds of this thread's CPU time; a quadratic reader takes many seconds."""

TEXTS = {
    "a heading with blanks": "# a" + " " * SIZE + "b",
    "a heading of number signs": "# " + "#" * SIZE + "x",
    "empty lines": "\n" * SIZE + "x",
    "lines of dashes": ("-" * 500 + "\n") * (SIZE // 501),
    "a list without an end": "- " * (SIZE // 2),
    "brackets": "[[" * (SIZE // 2),
    "links without an end": "[](a" * (SIZE // 4),
    "backticks of all lengths": "".join("`" * (n % 46 + 1) + " " for n in range(SIZE // 24)),
    "one word": "a" * SIZE,
    "dots": "a." * (SIZE // 2),
    "slashes": "a/" * (SIZE // 2),
    "braces": "{" * SIZE,
    "marks above one letter": "e" + "\u0301" * SIZE,
}
READERS: dict[str, Callable[[str], Any]] = {
    "front matter": lambda text: front_matter.read(f"---\n{text}\n---\n"),
    "globs": lambda text: rules.page_of(f"---\nglobs: a{text}#\n---\n"),
    "a list of globs": lambda text: rules.page_of(f"---\nglobs:\n- *{text}\n---\n"),
    "a rule": lambda text: rules.Rules(Reading("shop")).wanted("CLAUDE.md", text[:30_000]),
    "a task's file": orchestrator_journal.task,
    "a section's heading": lambda text: orchestrator_journal.task(f"# t\n## Status\n{text}"),
    "a journal's index": orchestrator_journal._index,
    "links of a note": lambda text: list(wiki_links.links(wiki_links.prose(text))),
    "tags of a note": wiki_links.tags,
    "summary of a note": lambda text: vault.summary({}, text),
    "keywords": keywords,
    "context files": read_paths,
    "a task": lambda text: parsed(Node(Uri("task://shop/x"), content=text)),
    "a section of the code's documentation": lambda text: text_of(text, "name", "a.md"),
    "a symbol": lambda text: text_of(text, "name", "a.py"),
    "a symbol of another language": lambda text: text_of(text, "name", "a.js"),
}


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_looks_at_each_character_a_few_times(reader: str) -> None:
    for name, text in TEXTS.items():
        began = time.thread_time()
        READERS[reader](text)
        assert time.thread_time() - began < SECONDS, name


def test_headings_and_globs_are_read_as_before() -> None:
    task = orchestrator_journal.task("# Title ##\n\n* **Status**: Done\n\n## Handoff Notes #\nx\n")
    assert (task.title, task.status) == ("Title", "done")
    assert task.data["sections"] == [{"title": "Handoff Notes", "content": "x"}]
    page = rules.page_of("---\nglobs: *.ts, *.tsx \t\n---\nx")
    assert page.front == {"globs": "*.ts, *.tsx"}
    assert rules.page_of("---\nglobs:\n  - **/*.py  \n---\nx").front == {"globs": ["**/*.py"]}
    found = rules.Rules(Reading("shop")).wanted("CLAUDE.md", "# The house # \nx\n")
    assert found is not None
    assert found.node.name == "The house"
    assert text_of("# A\n\n## The name ##  \nx\n## B\n", "the-name", "a.md") == "## The name ##\nx"


@pytest.mark.parametrize("source", ["import a" + ".b" * 25_000, "from a" + "\\\n.b" * 9_000 + " import x"])
def test_an_import_of_very_many_names_is_not_parsed(source: str) -> None:
    """Python's parser keeps every prefix: gigabytes and minutes for a file of 600 KB."""
    began = time.thread_time()
    assert text_of(f"{source}\n\ndef name():\n    pass\n\nx = 1\n", "name", "a.py") == "def name():\n    pass"
    assert time.thread_time() - began < 0.15


def test_patterns_that_are_made_to_be_slow_cost_a_question_its_answer_and_no_more() -> None:
    """A few hostile atoms could stop every path lookup; the matcher gives up after a number of steps."""
    patterns = ["/".join(f"**/{'*b*' if n >> place & 1 else '*a*'}" for place in range(30)) + "/x" for n in range(99)]
    matcher = Matcher((Uri(f"atom://shop/{n}"), [pattern]) for n, pattern in enumerate(patterns))
    began = time.thread_time()
    with pytest.raises(Limit):
        matcher.matches("/".join(["ab"] * 120), 50_000)
    assert time.thread_time() - began < SECONDS


def test_a_path_that_no_code_tree_can_have_is_refused() -> None:
    assert normalise("/".join(["a"] * 129), None) is None
    assert normalise("é" * 128, None) is None
    for path in ("/".join(["a"] * 128), "é" * 127, "a" * 255):
        assert normalise(path, None) == path
