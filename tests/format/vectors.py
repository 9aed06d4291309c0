"""The vectors in docs/format/, made by kgd: ``python -m tests.format.vectors`` writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from kgd.git.objects import ObjectId
from kgd.git.staging import Staging, Unwritten
from kgd.git.store import ObjectStore
from kgd.model.node import Json
from kgd.workspace.merging.trees import merge_trees
from tests.builders import new_layout
from tests.conftest import ROOT
from tests.format.merges import Case, case
from tests.format.node_files import node_files

FOLDER = ROOT / "docs/format"
MERGES = 340


class Merger:
    """Merges trees that are given as files, in a repository of its own."""

    def __init__(self, place: Path) -> None:
        self._store: ObjectStore = new_layout(place).open()

    def merged(self, base: Mapping[str, str], a: Mapping[str, str], b: Mapping[str, str]) -> dict[str, str]:
        """The files of the merge."""
        view = Unwritten(self._store)
        old, ours, theirs = (self._tree(view, files) for files in (base, a, b))
        found: dict[str, str] = dict(a)
        for path, data in merge_trees(view, old, ours, theirs, frozenset()).files.items():
            if data is None:
                found.pop(path, None)
        for path, data in merge_trees(view, old, ours, theirs, frozenset()).files.items():
            if data is not None:
                found[path] = data.decode()
        return dict(sorted(found.items()))

    @staticmethod
    def _tree(view: Unwritten, files: Mapping[str, str]) -> ObjectId:
        staging = Staging(view, None)
        for path, text in files.items():
            staging.put(path, text.encode())
        made = staging.write_tree()
        view.add(staging.objects)
        return made


def vector(merger: Merger, made: Case) -> dict[str, Json]:
    """The case with what kgd makes of it: the files that are no records of conflicts, and the records."""
    merged = merger.merged(made.base, made.a, made.b)
    records = {path: text for path, text in merged.items() if path.startswith("conflicts/")}
    result = {path: text for path, text in merged.items() if path not in records}
    return {
        "name": made.name,
        "base": dict(made.base),
        "a": dict(made.a),
        "b": dict(made.b),
        "result": result,
        "records": records,
    }


def merges(place: Path, numbers: range = range(MERGES)) -> list[dict[str, Json]]:
    merger = Merger(place)
    return [vector(merger, case(number)) for number in numbers]


def text_of(vectors: list[dict[str, Json]]) -> str:
    """One vector a line, so that a changed one is a changed line."""
    lines = (json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in vectors)
    return "[\n" + ",\n".join(lines) + "\n]\n"


def main() -> None:
    import tempfile

    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        (FOLDER / "merges.json").write_text(text_of(merges(Path(place))), encoding="utf-8")
    (FOLDER / "nodes.json").write_text(text_of(node_files()), encoding="utf-8")


if __name__ == "__main__":
    main()
