"""Files that a change touches, from its message: search with and without the code's history, and a count of words.

`python -m bench.localisation REPOSITORY...` takes git repositories as test data. The tree and the history are those
before the 200 newest commits with one to five files (no merges); each of their messages is a question, without trailers
and addresses, and the touched files that the tree has are the answer. R@5 is the mean share of them in the first five.

- `words`: files with most distinct words of the message, then most occurrences, as `rg --count` would rank them;
- `search`: `search` over the same tree in a repository without a past;
- `history`: `CodeHistory.files_for` alone: past messages, paths and companions;
- `both`: `search` in the repository with its past;
- `likely`: `likely_files` of `context`, which ranks the files found by a search together with those of past commits.
"""

from __future__ import annotations

import argparse
import logging
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kgd.code_history import reading
from kgd.code_history.history import CodeHistory
from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.git import code_log
from kgd.git.code_log import CodeCommit
from kgd.git.discovery import find_place
from kgd.git.layout import locate
from kgd.index.words import STOPWORDS, words_of
from kgd.model.uri import path_of, scheme_of
from kgd.tools import call
from kgd.tools.context.past import SEARCHED
from kgd.tools.session import Session
from kgd.tools.workspaces import status
from kgd.workspace.workspace import Workspace

QUESTIONS = 200
FILES = 5
AT = 5
MESSAGE = 600
"""Characters of a message that are asked."""
HITS = 40
TEXT_BYTES = 400_000
PATIENCE = 600.0
GOAL = 0.10
"""Gain over both rankings without history."""


class Asked(NamedTuple):
    message: str
    files: frozenset[str]


class Case(NamedTuple):
    """A history cut before its newest commits. `before` is the commit whose tree and past are the training data."""

    before: str
    questions: list[Asked]


def case_of(repository: Path) -> Case:
    place = find_place(repository)
    assert place is not None, f"{repository} is no git repository"
    tip, before, taken = code_log.head(place), "", list[CodeCommit]()
    for commit in code_log.commits(place, tip):
        if len(taken) == QUESTIONS:
            before = commit.id
            break
        if 1 <= commit.files <= FILES:
            taken.append(commit)
    present = set(code_log.files(place, before))
    questions = []
    for commit in taken:
        told = reading.parse(commit.message)
        files = frozenset(change.was or change.path for change in commit.changes) & present
        if files:
            questions.append(Asked(f"{told.subject}\n{told.body}"[:MESSAGE].strip(), files))
    return Case(before, questions)


@contextmanager
def workspace(folder: Path, code: Path) -> Iterator[tuple[Session, Workspace]]:
    """A workspace over a code tree, read and embedded."""
    home = Home.at(str(folder / "home"))
    home.prepare()
    daemon = Daemon(home, since="2026-01-01T00:00:00Z", locate=locate, open_workspace=Workspace.open)
    try:
        session = Session(daemon, cwd=code, client="bench", context_id=None)
        made = daemon.workspace(call(session, "up", {"id": "bench"})["workspace"])
        end = time.monotonic() + PATIENCE
        while (read := status.code(made)) is None or read["state"] != "ready":
            if time.monotonic() > end:
                raise SystemExit(f"the code was not read in time: {read}")
            time.sleep(0.2)
        if not made.meaning.catch_up(PATIENCE):
            raise SystemExit("not all texts were embedded in time")
        yield session, made
    finally:
        daemon.close()


def searched(session: Session, message: str) -> dict[str, float]:
    """The files of the hits in code, with the score of the best hit of each."""
    answer = call(session, "search", {"query": message, "limit": HITS, "budget": 100_000})
    found: dict[str, float] = {}
    for hit in [*answer.get("code", ()), *answer["hits"]]:
        scheme, path = scheme_of(hit["uri"]), path_of(hit["uri"])
        if scheme in ("symbol", "chunk"):
            path = path.rpartition("/")[0]
        if scheme in ("symbol", "chunk", "file", "document"):
            found.setdefault(path, max(hit["score"], 0.001))
    return found


def likely(workspace: Workspace, history: CodeHistory, message: str) -> list[str]:
    found, _ = workspace.files_with(message, SEARCHED)
    return [one.path for one in history.files_for(message, AT, {one.path: one.score for one in found})]


def by_words(tree: Path) -> Callable[[str], list[str]]:
    texts = {}
    for path in sorted(tree.rglob("*")):
        if path.is_file() and not path.is_symlink() and ".git" not in path.parts and ".kgd" not in path.parts:
            data = path.read_bytes()
            if len(data) <= TEXT_BYTES and b"\0" not in data[:8_000]:
                texts[str(path.relative_to(tree))] = data.decode("utf-8", "replace").casefold()

    def ranked(message: str) -> list[str]:
        asked = {word.casefold() for word in words_of(message)} - STOPWORDS
        counts = {path: [text.count(word) for word in asked] for path, text in texts.items()}
        scores = {path: (sum(map(bool, found)), sum(found)) for path, found in counts.items() if any(found)}
        return sorted(scores, key=lambda path: (-scores[path][0], -scores[path][1], path))

    return ranked


def recall(questions: Sequence[Asked], ranked: Callable[[str], Sequence[str]]) -> tuple[float, float]:
    """R@5, and the median milliseconds of a question."""
    shares, times = [], []
    for one in questions:
        begun = time.perf_counter()
        found = ranked(one.message)
        times.append(1e3 * (time.perf_counter() - begun))
        shares.append(len(one.files.intersection(found[:AT])) / len(one.files))
    return statistics.fmean(shares), statistics.median(times)


def measured(repository: Path, folder: Path) -> dict[str, tuple[float, float]]:
    case = case_of(repository)
    clone, bare = folder / "with", folder / "without"
    _git(folder, "clone", "-q", "--no-checkout", "--no-hardlinks", str(repository), str(clone))
    _git(clone, "checkout", "-q", "--detach", case.before)
    bare.mkdir()
    packed = subprocess.run(["git", "-C", clone, "archive", case.before], check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", bare], input=packed, check=True)
    _git(bare, "init", "-q")
    rows = {"words": recall(case.questions, by_words(bare))}
    with workspace(folder / "a", bare) as (session, _):
        without = session
        rows["search"] = recall(case.questions, lambda message: list(searched(without, message)))
    with workspace(folder / "b", clone) as (session, made):
        history, past = CodeHistory.of(made), session
        history.update()
        rows["history"] = recall(case.questions, lambda message: [one.path for one in history.files_for(message, AT)])
        rows["both"] = recall(case.questions, lambda message: list(searched(past, message)))
        rows["likely"] = recall(case.questions, lambda message: likely(made, history, message))
        commits = history.count()
    print(f"{repository}: {len(case.questions)} questions, {commits} commits before them", file=sys.stderr)
    return rows


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True)


def _name(repository: Path) -> str:
    return re.sub(r"^.*\+", "", repository.name if repository.name not in ("repo", ".git") else repository.parent.name)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.localisation", description="files of a change from its message")
    parser.add_argument("repositories", type=Path, nargs="+", metavar="REPOSITORY")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    print("| repository | words | search | history | both | likely | gain over search | over words |")
    print("|---" * 8 + "|")
    missed = 0
    for repository in options.repositories:
        with tempfile.TemporaryDirectory(prefix="kgd-bench-", ignore_cleanup_errors=True) as place:
            rows = measured(repository.resolve(), Path(place))
        words, search, best = rows["words"][0], rows["search"][0], max(rows["both"][0], rows["likely"][0])
        missed += best < max(words, search) + GOAL
        told = " | ".join(f"{share:.3f} ({ms:.0f} ms)" for share, ms in rows.values())
        gains = f"{100 * (best - search):+.1f} | {100 * (best - words):+.1f}"
        print(f"| {_name(repository)} | {told} | {gains} |", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
