"""Symbols of the code tree while a command of git rewrites it: afterwards, search knows exactly the files that are
there."""

from __future__ import annotations

import ast
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kgd.tools import call
from kgd.tools.session import Session
from tests.overlay.test_inside import hits, home, inside_of, settled, start
from tests.surfaces.conftest import git
from tests.waiting import until

__all__ = ["home", "start"]

FILES, COMMITS = 30, 12


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A branch whose commits change, rename, add and remove files, and a second branch that clashes with it halfway."""
    root = tmp_path / "shop"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "Ann Person")
    git(root, "config", "user.email", "ann@example.org")
    for number in range(FILES):
        write(root, number, "base")
    commit(root, "base")
    git(root, "switch", "-qc", "topic")
    for number in range(COMMITS):
        write(root, number, f"topic{number}")
        git(root, "mv", f"m{number + COMMITS}.py", f"moved{number}.py")
        (root / f"new{number}.py").write_text(f"def brand_new_{number}():\n    return {number}\n")
        if number % 2:
            (root / f"new{number - 1}.py").unlink()
        commit(root, f"topic {number}")
    git(root, "switch", "-q", "main")
    for number in (COMMITS // 2, FILES - 1):
        write(root, number, "main")
        commit(root, f"main {number}")
    git(root, "switch", "-q", "topic")
    return root


def write(root: Path, number: int, word: str) -> None:
    (root / f"m{number}.py").write_text(f"def {word}_{number}():\n    return {number}\n")


def commit(root: Path, message: str) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", message)


def defined(root: Path) -> set[str]:
    """The symbols of all files, by Python's own parser."""
    return {
        f"symbol://shop/{file.name}/{one.name}"
        for file in root.glob("*.py")
        for one in ast.parse(file.read_text()).body
        if isinstance(one, ast.FunctionDef)
    }


def known(session: Session) -> list[set[str]]:
    """The symbols that kgd has in files, and those among them that search finds by name."""
    inside = inside_of(session)
    in_files = {node.uri for path in inside.files() for node in inside.nodes(path) if node.type == "symbol"}
    found = {uri for uri in in_files if uri in hits(session, uri.rpartition("/")[2])}
    return [set(map(str, uris)) for uris in (in_files, found)]


def searching(session: Session, done: threading.Event) -> Iterator[None]:
    """Search until `done`; every search is answered."""
    while not done.is_set():
        call(session, "search", {"query": "topic3"})
        yield


def rebase(session: Session, root: Path) -> None:
    """Rebase with searches meanwhile; the clash halfway is settled by hand."""
    done, asked = threading.Event(), list[int]()

    def ask() -> None:
        asked.append(sum(1 for _ in searching(session, done)))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        command = ["git", "-C", str(root), "rebase", "-q", "--exec", "sleep 0.1", "main"]
        assert subprocess.run(command, capture_output=True, check=False).returncode, "no clash"
        until(lambda: "topic0" in " ".join(hits(session, "topic0_0")))
        write(root, COMMITS // 2, "settled")
        git(root, "add", "-A")
        git(root, "-c", "core.editor=true", "rebase", "--continue")
    finally:
        done.set()
        thread.join()
    assert asked[0] > 0


def stash(session: Session, root: Path) -> None:
    write(root, FILES - 2, "stashed")
    git(root, "stash", "-q")
    git(root, "switch", "-q", "main")
    git(root, "stash", "pop", "-q")


def bisect(session: Session, root: Path) -> None:
    git(root, "bisect", "start", "HEAD", "main~2")
    git(root, "bisect", "run", "sh", "-c", "! test -e new5.py")
    git(root, "bisect", "reset")


@pytest.mark.slow
@pytest.mark.parametrize("operation", [rebase, stash, bisect], ids=lambda operation: operation.__name__)
def test_search_knows_the_files_after_git_has_rewritten_the_tree(
    start: Callable[[], Session], code: Path, operation: Callable[[Session, Path], None]
) -> None:
    session = start()
    before = defined(code)
    assert known(session) == [before, before]
    operation(session, code)
    want = defined(code)
    assert want
    until(lambda: known(session) == [want, want], say=lambda: [some ^ want for some in known(session)])
    settled(session)
    assert call(session, "status")["code"]["symbols"] == len(want)
    assert [uri for uri in before - want if uri in hits(session, uri.rpartition("/")[2])] == []
