"""Prose about a tree, to be ingested beside its notes: documentation, or the doc comments of its source.

There is less of it than a large team ingests, so it is repeated: each copy has its paragraphs in another order and
lacks some sentences.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

CHUNK = 500
"""Characters of a chunk, about; the number of chunks is counted after the ingest."""
DROPPED = 0.15
"""Share of the sentences that a copy lacks."""
PAGE = 16_000
"""Characters up to which short pages are joined: a document for each source file would be mostly titles."""
_COMMENT = re.compile(r"/\*\*(.*?)\*/", re.DOTALL)
_MARGIN = re.compile(r"^\s*\* ?", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def pages_of(documentation: dict[str, str], code: Path, suffix: str) -> dict[str, str]:
    """Text by page name: the documentation, and the doc comments of source files, short pages joined."""
    found = {_slug(name.rpartition(".")[0]) or "readme": text for name, text in documentation.items()}
    joined, at = "", ""
    for file in sorted(code.rglob(f"*{suffix}")):
        comments = [_MARGIN.sub("", one).strip() for one in _COMMENT.findall(file.read_text(errors="replace"))]
        if text := "\n\n".join(one for one in comments if "Copyright" not in one):
            at = at or _slug(str(file.relative_to(code).with_suffix("")))
            joined += f"## {file.stem}\n\n{text}\n\n"
        if len(joined) > PAGE:
            found[at] = joined
            joined = at = ""
    return {**found, at: joined} if joined else found


def _slug(name: str) -> str:
    return re.sub(r"\W+", "-", name)


def write_prose(folder: Path, pages: dict[str, str], chunks: int, round: int) -> None:
    """Write about as many characters as that many chunks have, as Markdown files."""
    folder.mkdir(parents=True)
    missing = chunks * CHUNK
    for name, text in _copies(pages, round):
        (folder / f"{name}.md").write_text(text)
        missing -= len(text)
        if missing <= 0:
            return


def _copies(pages: dict[str, str], round: int) -> Iterator[tuple[str, str]]:
    for copy in count():
        for name, text in pages.items():
            title = f"{name.replace('-', ' ')}, edition {round}.{copy}"
            yield f"{name}-{round}-{copy}", f"# {title}\n\n{text if copy == round == 0 else _varied(text, title)}\n"


def _varied(text: str, seed: str) -> str:
    chance = random.Random(seed)
    paragraphs = [
        " ".join(one for one in _SENTENCE.split(paragraph) if chance.random() > DROPPED)
        for paragraph in text.split("\n\n")
    ]
    chance.shuffle(paragraphs)
    return "\n\n".join(paragraphs)
