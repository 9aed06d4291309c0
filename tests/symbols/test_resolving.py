"""Imports, calls and inheritance in code that was labelled by hand before the resolver was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgd.overlay.facts import language_of
from kgd.symbols import Symbols
from kgd.symbols.extraction import extract, language_for
from kgd.symbols.resolution import End, keys_of, resolve

FIXTURES = Path(__file__).parent / "fixtures"
LEAST = {"python": 0.98, "javascript": 0.96, "typescript": 0.96, "go": 1.0, "java": 0.97, "rust": 1.0}
"""Recall; what a reader sees and kgd does not is listed when a test fails. Precision is 1 for all."""


class Folder:
    """All files of a folder, as the resolver asks for them."""

    def __init__(self, root: Path) -> None:
        self.read: dict[str, Symbols] = {}
        self.keys: dict[str, list[str]] = {}
        for file in sorted(one for one in root.rglob("*") if one.is_file()):
            path = file.relative_to(root).as_posix()
            language = language_for(path, language_of(file.name))
            symbols = extract(path, file.read_bytes(), language) if language else None
            if symbols is not None:
                self.read[path] = symbols
                for key in keys_of(path, symbols):
                    self.keys.setdefault(key, []).append(path)

    def symbols(self, path: str) -> Symbols | None:
        return self.read.get(path)

    def files(self, key: str) -> list[str]:
        return self.keys.get(key, [])


@pytest.mark.requirement("U11")
@pytest.mark.parametrize("language", sorted(LEAST))
def test_edges_match_a_manual_reading_of_the_code(language: str) -> None:
    folder = Folder(FIXTURES / language)
    links = [link for path in folder.read for link in resolve(path, folder)]
    found = {f"{link.type} {_shown(link.source)} {_shown(link.target)}" for link in links}
    lines = (FIXTURES / language / "labels.txt").read_text().splitlines()
    labelled = {line for line in lines if line and not line.startswith("#")}
    right = found & labelled
    precision, recall = len(right) / len(found), len(right) / len(labelled)
    print(f"{language}: precision {precision:.3f}, recall {recall:.3f} of {len(labelled)} edges")
    assert sorted(found - labelled) == []
    assert recall >= LEAST[language], sorted(labelled - found)


def _shown(end: End) -> str:
    return f"{end.path}::{end.name}" if end.name else end.path
