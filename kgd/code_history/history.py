"""The code's own history as knowledge: files that a task will touch, past attempts, files that change together.

Answers come from the commit index. While kgd is still reading the history, they cover only the newest commits; without
a repository they are empty. A problem with the history never makes a question fail.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kgd.code_history import evidence, reading
from kgd.code_history.evidence import NEWEST, Finding, LikelyFile, by_chance, is_significant
from kgd.code_history.evidence import findings as found_in
from kgd.errors import KgdError
from kgd.git import code_log
from kgd.git.discovery import find_place, is_partial, is_shallow
from kgd.git.program import GitFailed
from kgd.index.commit_index import LISTED, NARROW, CommitIndex, CommitRow, NewCommit
from kgd.index.database import IndexDamaged

if TYPE_CHECKING:
    from kgd.git.discovery import Place
    from kgd.workspace.workspace import Workspace

FILE = "code-history.sqlite"
FINDING_SECONDS = 0.8
AGAIN_AFTER = 600.0
"""Seconds until a history that could not be read is tried again."""
MATCHING = 60
"""Number of commits with words of a question that are re-ranked."""
SHALLOW = "the clone is shallow: older history is unknown; `git fetch --unshallow` completes it"
PARTIAL = (
    "the clone is partial: kgd does not fetch the objects that it lacks, so older history is unknown; "
    "`git fetch --refetch --no-filter` completes it"
)
COVERED = 0.35
"""Minimum share of a question's words, weighted by rarity, that a past commit about it must have."""
WINDOW = 1_000
"""Number of the newest commits of the given paths to examine."""
LEAST_TOGETHER, LEAST_SHARE = 3, 0.2
"""Minimum number of commits in common with a companion, and their minimum share of all commits of the given paths."""
TESTED = 200
"""Number of candidates whose significance is tested, most frequent first."""
FORMER = 20
"""Maximum number of former paths of a file."""
SPARE = 20
"""Number of further files to rank, in place of those that are not in the work tree."""
RENAMED = 1_000
"""Maximum number of renamed files of a folder to compare."""

log = logging.getLogger("kgd.history")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PastCommit:
    """A past commit. `kind` is ``fix``, ``revert`` or empty; `reason` is the first paragraph of its body.

    `reverts` is the commit that it reverts, and `reverted_by` the ids of reverts of it that still stand. `paths` are
    the current paths of its files. `score` is 0..1 for an answer to a question.
    """

    id: str
    at: int
    author: str
    subject: str
    reason: str
    kind: str
    reverts: str
    reverted_by: tuple[str, ...]
    paths: tuple[str, ...]
    score: float = 0.0


class Companion(NamedTuple):
    """A file that changed in `times` of the `of` commits on the given paths; `chance` is the probability of that for an
    unrelated file (Fisher's exact test, one-sided)."""

    path: str
    times: int
    of: int
    chance: float


class Expert(NamedTuple):
    """An author of the given paths, with the number of commits and the time of the newest."""

    name: str
    commits: int
    last: int


class CodeHistory:
    """The history of one code tree. Create it with `CodeHistory.of`. Thread-safe.

    `refresh` is called before an answer if the checked-out commit has changed. It either updates the index in this
    thread or wakes a reader.
    """

    def __init__(self, root: Path | None, file: Path) -> None:
        self._code, self.file = find_place(root) if root is not None else None, file
        self._opening, self._updating = Lock(), Lock()
        self._index: CommitIndex | None = None
        self._unopened = ""
        """Why the index cannot be opened."""
        self._finding = Lock()
        self._found: tuple[str, list[Finding]] = ("", [])
        self._renames: tuple[tuple[str, int, int, int], Mapping[str, str]] = ("", 0, 0, 0), {}
        self._unreadable, self._why, self._again_at = "", "", 0.0
        """The commit whose history could not be read, the reason, and the time of the next attempt."""
        self.refresh: Callable[[], object] = self.update

    @classmethod
    def of(cls, workspace: Workspace) -> CodeHistory:
        def make(workspace: Workspace) -> CodeHistory:
            made = cls(workspace.layout.code_tree, workspace.derived_dir / FILE)
            workspace.on_problem(made.problem)
            return made

        return workspace.beside(cls, make)

    # ---- answers

    def files_for(self, query: str, limit: int = 10, seeds: Mapping[str, float] | None = None) -> list[LikelyFile]:
        """The files that a task will touch, most likely first, each with the commits that suggest it.

        `seeds` are files that a search of the code found, with scores (1 is the best). They are ranked together with
        files of past commits with similar messages, files with matching paths, and their companions. A file that was
        moved or deleted, but not committed yet, has its new path or is left out.
        """
        found = self._ask(
            lambda index: evidence.files_for(index, query, limit + SPARE, seeds or {}), list[LikelyFile]()
        )
        here = dict[str, LikelyFile]()
        for one in found:
            if path := self._now(one.path):
                here.setdefault(path, one._replace(path=path))
        return list(here.values())[:limit]

    def commits_for(
        self, query: str, limit: int = 10, *, since: int | None = None, until: int | None = None
    ) -> list[PastCommit]:
        """Past commits about a question, best first; none if only common words match.

        `since` and `until` (Unix seconds, both inclusive) limit their time.
        """
        return self._ask(lambda index: _about(index, query, limit, since, until), [])

    def companions(self, paths: Sequence[str], limit: int = 8) -> list[Companion]:
        """Other files that usually change together with the given files, most frequent first.

        Each of them passes Fisher's exact test at 1 %, corrected for the number of candidates. Commits of more than 30
        files are ignored. Uncommitted moves and deletions count as in `files_for`.
        """
        found = self._ask(lambda index: _companions(index, paths, limit + SPARE), list[Companion]())
        here = (one._replace(path=path) for one in found if (path := self._now(one.path)))
        return [one for one in here if not _is_among(one.path, paths)][:limit]

    def lately(
        self, paths: Sequence[str], limit: int = 8, *, since: int | None = None, until: int | None = None
    ) -> list[PastCommit]:
        """The last commits that changed one of the paths, newest first; a path that ends in a slash is a folder.

        `since` and `until` (Unix seconds, both inclusive) limit their time.
        """

        def told(index: CommitIndex) -> list[PastCommit]:
            return _told(index, [(n, 0.0) for n in index.touching(paths, limit, since=since, until=until)])

        return self._ask(told, [])

    def experts(self, paths: Sequence[str], limit: int = 3) -> list[Expert]:
        """The authors of the newest commits to the paths, most commits first."""
        return self._ask(lambda index: _experts(index, paths, limit), [])

    def commit(self, id: str) -> PastCommit | None:
        """A commit by its full id; None if it is not stored."""

        def told(index: CommitIndex) -> PastCommit | None:
            return next(iter(_told(index, [(row.number, 0.0) for row in index.with_ids([id]).values()])), None)

        return self._ask(told, None)

    def renamed(self, path: str) -> str:
        """The current path of a file or folder that was renamed; empty if it was not, or exists now.

        A folder was renamed if most of its renamed files have the same path below another folder. Chains of
        renames are followed (`commit_index.STEPS`), up to a rename in git's index that is not committed.
        """
        if not self._is_gone(path):
            return ""
        staged = self._staged()
        return self._ask(lambda index: _renamed(index, path, staged), "")

    def former(self, paths: Collection[str], *, committed: bool = False) -> dict[str, list[str]]:
        """The former paths of each of these files, at most `FORMER`, without paths that exist now; if `committed`, only
        former paths of committed renames."""
        staged = {} if committed else {now: was for was, now in self._staged().items()}
        last = {path: staged[path] for path in paths if path in staged}
        known = self._ask(lambda index: index.former([*paths, *last.values()]), dict[str, list[str]]())
        found = {path: known[path] for path in paths if path in known}
        found |= {now: [was, *known.get(was, ()), *found.get(now, ())] for now, was in last.items()}
        gone = ((path, [was for was in some[:FORMER] if self._is_gone(was)]) for path, some in found.items())
        return {path: some for path, some in gone if some}

    def _staged(self) -> Mapping[str, str]:
        """The renames in git's index that are not committed. Runs git after a change of the index or of the
        checked-out commit."""
        code, tip = self._code, self.tip
        if code is None or not tip:
            return {}
        with contextlib.suppress(OSError):
            found = os.stat(code.git_dir / "index")
            stamp = (tip, found.st_mtime_ns, found.st_size, found.st_ino)
            known, renames = self._renames
            if known != stamp:
                try:
                    renames = code_log.staged_renames(code, tip)
                except (GitFailed, KgdError) as error:
                    log.info("the renames in git's index were not read", extra={"reason": str(error)[:300]})
                    renames = {}
                self._renames = stamp, renames
            return renames
        return {}

    def _now(self, path: str) -> str:
        """The path in the work tree of a committed file; empty if it has none."""
        if not self._is_gone(path):
            return path
        now = self._staged().get(path, "")
        return "" if self._is_gone(now) else now

    def _is_gone(self, path: str) -> bool:
        """Whether the work tree has nothing at a path."""
        top = self._code.top if self._code is not None else None
        return top is not None and not os.path.lexists(top / path)

    def count(self) -> int:
        """The number of commits that were read."""
        return self._ask(lambda index: index.count(), 0)

    def findings(self) -> list[Finding]:
        """Up to three findings in the newest commits, read from git at most once for each checked-out commit.

        They do not need the index, so they are available in a new workspace as well. Commits that git cannot read
        within a second are left out.
        """
        code, tip = self._code, self.tip
        if code is None or not tip:
            return []
        with self._finding:
            if self._found[0] != tip:
                newest: list[NewCommit] = []
                try:
                    for commit in code_log.commits(code, tip, limit=NEWEST, seconds=FINDING_SECONDS):
                        newest.append(reading.new_commit(commit))
                except (GitFailed, KgdError) as error:
                    log.info("not all of the newest commits were read", extra={"reason": str(error)[:300]})
                self._found = tip, found_in(newest, lambda paths: _present(code, tip, paths))
            return self._found[1]

    # ---- keeping it current

    @property
    def is_current(self) -> bool:
        """Whether there is nothing to read: the index reflects the checked-out commit, or reading its history
        failed a few minutes ago."""
        return (self._unreadable == self.tip and time.monotonic() < self._again_at) or self.is_read

    @property
    def is_read(self) -> bool:
        """Whether the index reflects the checked-out commit. True if there is no such commit or no index."""
        index, tip = self._open(), self.tip
        try:
            if index is None or self._code is None or not tip:
                return True
            return index.tip() == tip and index.boundary() == reading.boundary(self._code)
        except KgdError:
            return False

    def give_up(self, tip: str, why: str) -> None:
        """Read the history of this commit again only after some minutes; other commits are still tried."""
        self._unreadable, self._why, self._again_at = tip, why, time.monotonic() + AGAIN_AFTER
        log.warning("the code's history cannot be read", extra={"reason": why[:300]})

    def problem(self) -> str:
        """A sentence for `kgd status` if the history cannot be read; otherwise empty."""
        why = self._unopened or self.limits() or (self._why if self._is_unreadable else "")
        return f"code history: {why[:250]}" if why else ""

    def limits(self, *, lacks: bool = False) -> str:
        """Why the clone lacks history that an answer needs, and the command that fetches it; empty if it lacks none.

        With `lacks`, the answer needs history that could not be read.
        """
        git_dir = self._code.common_dir if self._code is not None else None
        if git_dir is not None and is_shallow(git_dir):
            return SHALLOW
        is_lacking = lacks or self._is_unreadable
        return PARTIAL if git_dir is not None and is_lacking and is_partial(git_dir) else ""

    @property
    def _is_unreadable(self) -> bool:
        return bool(self._unreadable) and self._unreadable == self.tip and not self.is_read

    @property
    def tip(self) -> str:
        """The checked-out commit; empty if there is none."""
        return code_log.head(self._code) if self._code is not None else ""

    @property
    def git_dir(self) -> Path | None:
        return self._code.git_dir if self._code is not None else None

    def missing(self) -> int:
        """The number of commits that `update` would add or drop, at most `reading.COMMITS` each."""
        index, tip = self._open(), self.tip
        if index is None or self._code is None or self.is_current:
            return 0
        try:
            if index.boundary() != reading.boundary(self._code):
                return len(code_log.reachable(self._code, tip, reading.COMMITS))
            return reading.difference(index, self._code, tip).size
        except (GitFailed, KgdError):
            return 1

    def update(self, stop: Event | None = None) -> None:
        """Update the index to the checked-out commit, in this thread. A failure is logged and not raised."""
        with self._updating:
            index, tip = self._open(), self.tip
            if index is None or self._code is None or self.is_current:
                return
            try:
                try:
                    reading.update(index, self._code, tip, stop)
                except IndexDamaged:
                    self._rebuild(index)
                    reading.update(index, self._code, tip, stop)
            except (GitFailed, KgdError) as error:
                if stop is None or not stop.is_set():
                    self.give_up(tip, str(error))

    def close(self) -> None:
        with self._opening:
            if self._index is not None:
                self._index.close()

    def _open(self) -> CommitIndex | None:
        if self._code is None:
            return None
        with self._opening:
            if self._index is None:
                try:
                    self._index, self._unopened = CommitIndex(self.file), ""
                except KgdError as error:
                    self._unopened = f"its index cannot be opened: {error}"
                    log.warning("the index of the code's history cannot be opened", extra={"reason": str(error)[:300]})
            return self._index

    def _rebuild(self, index: CommitIndex) -> None:
        log.warning("the index of the code's history was damaged and is rebuilt")
        try:
            index.recreate()
        except KgdError as error:
            log.warning("it cannot be rebuilt", extra={"reason": str(error)[:300]})

    def _ask(self, question: Callable[[CommitIndex], T], nothing: T) -> T:
        index = self._open()
        if index is None:
            return nothing
        if not self.is_current:
            self.refresh()
        try:
            return question(index)
        except IndexDamaged:
            self._rebuild(index)
        except KgdError as error:
            log.warning("the code's history is unavailable", extra={"reason": str(error)[:300]})
        return nothing


def _about(index: CommitIndex, query: str, limit: int, since: int | None, until: int | None) -> list[PastCommit]:
    counts = index.frequencies(evidence.content_words(query))
    found = index.matching(evidence.telling(index, counts), MATCHING)
    if not found:
        return []
    covered = evidence.coverage(index, counts, [number for number, _ in found])
    best = found[0][1]
    scored = [(n, round(covered[n] * score / best, 4)) for n, score in found if covered[n] >= COVERED]
    if since is not None or until is not None:
        rows = index.commits([n for n, _ in scored])
        first, last = (-math.inf if since is None else since), (math.inf if until is None else until)
        scored = [one for one in scored if one[0] in rows and first <= rows[one[0]].at <= last]
    return _told(index, sorted(scored, key=lambda one: (-one[1], -one[0]))[:limit])


def _told(index: CommitIndex, scored: Sequence[tuple[int, float]]) -> list[PastCommit]:
    """The commits in this order, with their files and reverts."""
    numbers = [number for number, _ in scored]
    rows, paths = index.commits(numbers), index.paths_of(numbers)
    reverts = index.reverting([*(row.id for row in rows.values()), *(row.subject for row in rows.values())])
    later = index.reverting([*(one.id for one in reverts), *(one.subject for one in reverts)])
    standing = [one for one in reverts if not any(_reverts(undoing, one) for undoing in later)]
    return [_past(rows[number], paths.get(number, ()), standing, score) for number, score in scored if number in rows]


def _past(row: CommitRow, paths: Sequence[str], reverts: Sequence[CommitRow], score: float) -> PastCommit:
    by = tuple(one.id for one in reverts if _reverts(one, row))
    return PastCommit(
        row.id,
        row.at,
        row.author,
        row.subject,
        reading.reason(row.body),
        row.kind,
        row.reverts,
        by,
        tuple(paths),
        score,
    )


def _reverts(later: CommitRow, row: CommitRow) -> bool:
    return later.number > row.number and later.reverts in (row.id, row.subject)


def _companions(index: CommitIndex, paths: Sequence[str], limit: int) -> list[Companion]:
    numbers = index.touching(paths, WINDOW, widest=NARROW)
    if len(numbers) < LEAST_TOGETHER:
        return []
    since = numbers[-1] if len(numbers) == WINDOW else 0
    counted: dict[str, int] = {}
    for found in index.paths_of(numbers, widest=NARROW).values():
        for path in found:
            if not _is_among(path, paths):
                counted[path] = counted.get(path, 0) + 1
    least = max(LEAST_TOGETHER, LEAST_SHARE * len(numbers))
    often = sorted((-count, path) for path, count in counted.items() if count >= least)[:TESTED]
    candidates = index.is_present([path for _, path in often])
    total, marked = index.narrow_count(since), index.counts(candidates, since)
    answer = []
    for less, path in often:
        if path in candidates:
            chance = by_chance(-less, len(numbers), marked.get(path, -less), total)
            if is_significant(chance, len(counted)):
                answer.append(Companion(path, -less, len(numbers), chance))
    return answer[:limit]


def _renamed(index: CommitIndex, path: str, staged: Mapping[str, str]) -> str:
    now = index.renamed([path]).get(path, path)
    if (now := staged.get(now, now)) != path:
        return now
    below = {was: staged.get(now, now) for was, now in index.renamed_below(path, RENAMED).items()}
    below |= {was: now for was, now in staged.items() if was.startswith(f"{path}/")}
    folders = Counter(now.removesuffix(rest) for was, now in below.items() if now.endswith(rest := was[len(path) :]))
    folder, count = folders.most_common(1)[0] if folders else ("", 0)
    return folder if 2 * count > len(below) else ""


def _experts(index: CommitIndex, paths: Sequence[str], limit: int) -> list[Expert]:
    counted: dict[str, tuple[int, int]] = {}
    for row in index.commits(index.touching(paths, WINDOW, widest=LISTED)).values():
        count, last = counted.get(row.author, (0, 0))
        counted[row.author] = count + 1, max(last, row.at)
    best = sorted(((-count, -last, name) for name, (count, last) in counted.items() if name))
    return [Expert(name, -count, -last) for count, last, name in best[:limit]]


def _present(code: Place, tip: str, paths: Sequence[str]) -> list[str]:
    try:
        return code_log.files(code, tip, paths)
    except (GitFailed, KgdError):
        return []


def _is_among(path: str, paths: Sequence[str]) -> bool:
    return any(path == one or not one or (one.endswith("/") and path.startswith(one)) for one in paths)
