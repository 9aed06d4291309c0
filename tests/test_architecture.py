"""Architecture: imports point down, each third-party library has one home, and the page names real files."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pygit2
import pygit2._pygit2
from pygit2.repository import BaseRepository

ROOT = Path(__file__).resolve().parent.parent


def test_imports_follow_the_layers() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_the_picture_shows_the_current_layers() -> None:
    script = [sys.executable, "scripts/architecture.py"]
    picture = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert (ROOT / "docs/pictures/architecture.svg").read_text() == picture, "run: make pictures"
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rooms = {room.strip(" ()") for layer in contracts[0]["layers"] for room in layer.split("|")}
    drawn = ElementTree.fromstring(picture).iterfind(".//{*}g/{*}text")
    assert rooms == {text.text for text in drawn if not text.get("class")}


def test_every_file_and_room_that_the_page_names_exists() -> None:
    """A name without its folder, as in "`merging/`: `trees.py`", counts if some file has it."""
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    known = {"/".join(parts[start:]) for parts in map(_parts, files) for start in range(len(parts))}
    rooms = {f"{part}/" for path in files for part in Path(path).parts[:-1]}
    rooms |= {f"{folder}/" for path in files for folder in (str(Path(path).parent), str(Path(path).parent)[4:])}
    named = re.findall(r"`(\w[\w/.-]*(?:\.py|/))`", (ROOT / "ARCHITECTURE.md").read_text())
    assert len(named) > 100
    assert [name for name in named if name not in known and name not in rooms] == []


def _parts(path: str) -> tuple[str, ...]:
    return Path(path).parts


def _files(folder: str, word: str) -> Iterator[tuple[Path, str]]:
    """The files of code with this word, and their texts: parsing all takes seconds."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        if word in (text := path.read_text()):
            yield path, text


def test_no_test_runs_an_event_loop_in_the_thread_that_a_browser_may_occupy() -> None:
    in_their_own_threads_or_processes = {"tests/event_loops.py", "tests/hub/crowd.py", "tests/across/sites.py"}
    found = {
        str(path.relative_to(ROOT))
        for path, text in _files("tests", ".run(")
        if re.search(r"\b(asyncio|anyio|trio)\b", text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"asyncio.run", "anyio.run", "trio.run"}
    }
    assert found <= in_their_own_threads_or_processes


def test_threads_share_a_repository_only_in_calls_that_hold_the_interpreters_lock() -> None:
    """pygit2's functions in C hold it, except `walk`; the functions in Python release it, through cffi."""
    used = {
        node.attr
        for node in ast.walk(ast.parse((ROOT / "kgd/git/store.py").read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in {"self._repository", "repository", "handle"}
    }
    in_c = set(vars(pygit2._pygit2.Repository)) - set(vars(pygit2.Repository)) - set(vars(BaseRepository)) - {"walk"}
    assert used
    assert used <= in_c


def test_the_exceptions_of_a_malformed_document_are_listed_in_one_place() -> None:
    """A handler that lists them by hand forgets one. The first answer of `kgd mcp` needs no import of `kgd.errors`."""
    of_lookups, of_values = {"LookupError", "KeyError", "IndexError"}, {"ValueError", "TypeError", "AttributeError"}
    found = []
    for path, text in _files("kgd", "except ("):
        if path == ROOT / "kgd/client/first_answers.py":
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ExceptHandler) and isinstance(node.type, ast.Tuple):
                names = {one.id for one in node.type.elts if isinstance(one, ast.Name)}
                if names & of_lookups and len(names & of_values) >= 2:
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert found == [], "use kgd.errors.MALFORMED"
