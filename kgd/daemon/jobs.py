"""This file is where jobs are: what takes longer than a call may, goes on without its caller, and survives a restart.

They are kept in a small file beside the index. A job that was cut off begins again when its workspace is opened; what
it has written already is found to be there, so nothing is done twice.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from kgd.config import person_environment
from kgd.daemon.sources import beginning
from kgd.daemon.taking_in import Report, Request, Stopped, TakingIn
from kgd.errors import InvariantViolation, KgdError, Limit, NotFound, Unavailable
from kgd.git.files import replace as replace_file
from kgd.ingest.kind import FILE_LIMIT, SNIFFED, Kind
from kgd.ingest.kinds import KINDS, recognised
from kgd.mentions.mentions import Mentions
from kgd.model.change import Author, ChangeSet, Edit

if TYPE_CHECKING:
    from kgd.git.layout import Layout
    from kgd.workspace.workspace import Workspace

FILE = "jobs.json"
KEPT = 50
"""Jobs that are done and still told of."""
WAITING = 20
"""Jobs of one workspace that may wait at a time."""
SAVED_EVERY = 2.0
"""Seconds between two notes of how far a job is."""

RUNNING, DONE, FAILED = "running", "done", "failed"

log = logging.getLogger("kgd.jobs")


@dataclass(slots=True)
class Job:
    """One of them, as it is kept and as it is shown. Times are Unix seconds; `total` is None while nobody knows it."""

    id: str
    source: str
    kind: str
    uri: str
    author: tuple[str, str, str]
    began: float
    state: str = RUNNING
    ended: float | None = None
    done: int = 0
    total: int | None = None
    counts: dict[str, int] = field(default_factory=dict)
    uris: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)
    more_trouble: int = 0
    failure: str = ""

    @property
    def is_over(self) -> bool:
        return self.state != RUNNING


def unfinished(layout: Layout) -> bool:
    """Whether a workspace that is not open has jobs to go on with. Reads one small file."""
    return any(not job.is_over for job in _load(layout.derived_dir / FILE)[0])


class Jobs:
    """The jobs of one open workspace; they run one after the other, in a thread that begins with the first.

    Args:
        limit: Bytes of one document, as the settings say when a job begins.
    """

    def __init__(
        self, workspace: Workspace, limit: Callable[[], int] = lambda: FILE_LIMIT,
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._workspace, self._limit, self._clock = workspace, limit, clock
        self._file = workspace.layout.derived_dir / FILE
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        jobs, self._roots = _load(self._file)
        self._jobs = {job.id: job for job in jobs}
        """In the order in which they were asked for."""

    def start(self) -> None:
        """Go on with what was cut off."""
        with self._changed:
            if any(not job.is_over for job in self._jobs.values()):
                self._wake()

    def ask(self, request: Request, author: Author) -> Job:
        """The job for this request: the one that is at it already, or a new one.

        Raises:
            Limit: Too many wait.
            InvariantViolation: Another folder was taken in under the name that this one would have.
        """
        with self._changed:
            for job in self._jobs.values():
                if not job.is_over and (job.source, job.kind, job.uri) == (request.source, request.kind, request.uri):
                    return job
            if sum(not job.is_over for job in self._jobs.values()) >= WAITING:
                raise Limit(f"{WAITING} jobs are waiting already", next="Ask again when `kgd status` shows fewer.")
            self._claim(request)
            job = Job(
                secrets.token_hex(4), request.source, request.kind, request.uri,
                (author.name, author.email, author.client), self._clock(),
            )  # fmt: skip
            self._jobs[job.id] = job
            over = [id for id, one in self._jobs.items() if one.is_over]
            for id in over[:-KEPT]:
                del self._jobs[id]
            self._save()
            self._wake()
            return job

    def get(self, id: str) -> Job:
        with self._changed:
            if id not in self._jobs:
                raise NotFound("there is no such job", at=id[:40], next="`kgd status` lists them.")
            return _copied(self._jobs[id])

    def all(self) -> list[Job]:
        """Newest first."""
        with self._changed:
            return [_copied(job) for job in reversed(self._jobs.values())]

    def wait(self, id: str, seconds: float, told: Callable[[Job], None] = lambda job: None) -> Job:
        """The job when it is over, or as it is after so many seconds. `told` hears of progress; what it raises ends the
        wait, not the job."""
        until = time.monotonic() + seconds
        while True:
            job = self.get(id)
            told(job)
            left = until - time.monotonic()
            if job.is_over or left <= 0 or self._stop.is_set():
                return job
            with self._changed:
                self._changed.wait(min(left, 0.25))

    def close(self) -> None:
        """Let the document that is being written come to its end. What is left goes on when the workspace is opened."""
        self._stop.set()
        if (thread := self._thread) is not None:
            thread.join()
        with self._changed:
            self._changed.notify_all()
            if self._jobs:
                self._save()

    def _claim(self, request: Request) -> None:
        """Two folders of one name would take each other's place in turns: the second one has to be called otherwise."""
        if not request.source:
            return
        path = Path(request.source)
        name = request.uri or path.name
        known = self._roots.get(name)
        if known is not None and known != request.source and Path(known).exists():
            kind, head = _kind_of(path, request.kind)
            if kind.names_itself(head):  # an export is always called conversations.json
                return
            raise InvariantViolation(
                f"'{name[:80]}' was taken in from another place", at=known[-80:],
                next=f"Give this one a uri of its own, such as {kind.scheme}://{self._workspace.id}/<name>.",
            )  # fmt: skip
        self._roots[name] = request.source

    def _wake(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            thread = threading.Thread(target=self._work, name="kgd-jobs", daemon=True)
            thread.start()
            self._thread = thread
        self._changed.notify_all()

    def _work(self) -> None:
        while not self._stop.is_set():
            with self._changed:
                job = next((one for one in self._jobs.values() if not one.is_over), None)
                if job is None:
                    self._thread = None
                    return
            try:
                self._run(job)
            except Stopped:
                return
            except Exception as error:  # the edge of a thread's loop: the job says so, the next one has its turn
                log.exception("a job failed", extra={"job": job.id})
                self._end(job, FAILED, str(error) if isinstance(error, KgdError) else "a defect of kgd; see its log")

    def _run(self, job: Job) -> None:
        report = Report(Counter(job.counts), list(job.trouble), job.more_trouble)
        author = Author(*job.author)
        saved = time.monotonic()

        def submit(edits: tuple[Edit, ...], message: str) -> None:
            self._workspace.submit(ChangeSet(edits, author, message, operation="ingest"))

        def told(done: int, total: int | None, message: str) -> None:
            nonlocal saved
            with self._changed:
                self._note(job, report)
                if time.monotonic() - saved > SAVED_EVERY:
                    saved = time.monotonic()
                    self._save()
                self._changed.notify_all()

        taking = TakingIn(
            self._workspace, Request(job.source, "", job.kind, job.uri), submit, report, told, self._stop,
            person_environment(), skip=job.done, limit=self._limit(),
        )  # fmt: skip
        try:
            taking.run()
        finally:
            with self._changed:
                self._note(job, report)
        with contextlib.suppress(Unavailable):  # that its file cannot be opened is no failure of the job
            Mentions.of(self._workspace)  # begins to look for names; else the first question would, and not find them
        self._end(job, DONE)

    def _note(self, job: Job, report: Report) -> None:
        job.done, job.total = max(job.done, report.done), report.total
        job.counts = dict(report.counts)
        job.uris = [str(uri) for uri in report.uris]
        job.trouble, job.more_trouble = list(report.trouble), report.more_trouble

    def _end(self, job: Job, state: str, failure: str = "") -> None:
        with self._changed:
            job.state, job.failure, job.ended = state, failure[:400], self._clock()
            self._save()
            self._changed.notify_all()

    def _save(self) -> None:
        kept = {"jobs": [asdict(job) for job in self._jobs.values()], "roots": self._roots}
        try:
            replace_file(self._file, orjson.dumps(kept))
        except OSError as error:  # the job itself goes on; after a kill it would begin anew
            log.warning("jobs could not be noted", extra={"reason": str(error)})


def _kind_of(path: Path, wanted: str) -> tuple[Kind, bytes]:
    """What a path will be taken in as, and what it begins with if it is a file."""
    head = beginning(path, SNIFFED)
    return KINDS.get(wanted) or recognised(path.name, head), head


def _copied(job: Job) -> Job:
    return replace(job, counts=dict(job.counts), uris=list(job.uris), trouble=list(job.trouble))


def _load(file: Path) -> tuple[list[Job], dict[str, str]]:
    """What was noted; nothing where the file is missing or damaged: it is derived from nothing, and lost."""
    try:
        found: Mapping[str, Any] = orjson.loads(file.read_bytes())
        jobs = [Job(**{**one, "author": tuple(one["author"])}) for one in found["jobs"]]
        return jobs, {str(name): str(root) for name, root in found["roots"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return [], {}
