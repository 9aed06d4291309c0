"""Jobs: ingestion that takes longer than a call, runs without its caller, and survives a restart.

Jobs are stored in a small file next to the index. An interrupted job starts again when its workspace is opened; content
that is already stored is skipped.
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
from kgd.errors import Advice, Do, InvariantViolation, KgdError, Limit, NotFound, Unavailable
from kgd.git import files
from kgd.git.files import replace as replace_file
from kgd.mentions.mentions import Mentions
from kgd.model.change import Author, ChangeSet, Edit

if TYPE_CHECKING:
    from kgd.daemon.ingestion import Report, Request
    from kgd.git.layout import Layout
    from kgd.postgres.database import JobBoard, Reported
    from kgd.workspace.workspace import Workspace

FILE = "jobs.json"
KEPT = 50
"""Number of finished jobs that are kept for display."""
SILENT_SECONDS = 60.0
"""A job of another hub counts as failed if its hub has not reported for this time."""
WAITING = 20
"""Largest number of queued jobs of one workspace."""
SAVED_EVERY = 2.0
"""Seconds between two saves of a job's progress."""

RUNNING, DONE, FAILED = "running", "done", "failed"

log = logging.getLogger("kgd.jobs")


@dataclass(slots=True)
class Job:
    """One job. Times are Unix seconds; `total` is None while unknown."""

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
    """Whether a closed workspace has interrupted jobs. Reads one small file."""
    return any(not job.is_over for job in _load(layout.derived_dir / FILE)[0])


class Jobs:
    """The jobs of one open workspace, run one after the other in a thread.

    Args:
        limit: Returns the byte limit of one document; called when a job starts.
        board: The reports of several hubs.
    """

    def __init__(self, workspace: Workspace, limit: Callable[[], int], board: JobBoard | None = None) -> None:
        self._workspace, self._limit, self._board = workspace, limit, board
        self._file = workspace.layout.derived_dir / FILE
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        jobs, self._roots = _load(self._file)
        self._jobs = {job.id: job for job in jobs}
        """All jobs, in the order of their requests."""

    def start(self) -> None:
        """Continue interrupted jobs."""
        with self._changed:
            if any(not job.is_over for job in self._jobs.values()):
                self._wake()

    def ask(self, request: Request, author: Author) -> Job:
        """The job for this request: an unfinished job for the same source, or a new one.

        Raises:
            Limit: Too many jobs are waiting.
            InvariantViolation: Another folder was ingested under the same name.
        """
        with self._changed:
            for job in self._jobs.values():
                if not job.is_over and (job.source, job.kind, job.uri) == (request.source, request.kind, request.uri):
                    return job
            if sum(not job.is_over for job in self._jobs.values()) >= WAITING:
                raise Limit(
                    f"{WAITING} jobs are waiting", next=Advice("Ask again when ", Do("status"), " shows fewer.")
                )
            self._claim(request)
            job = Job(
                secrets.token_hex(4),
                request.source,
                request.kind,
                request.uri,
                (author.name, author.email, author.client),
                time.time(),
            )
            self._jobs[job.id] = job
            over = [id for id, one in self._jobs.items() if one.is_over]
            for id in over[:-KEPT]:
                del self._jobs[id]
            self._save()
            self._wake()
        self._report(job)
        return job

    @property
    def is_busy(self) -> bool:
        """Whether a job is running or waiting."""
        with self._changed:
            return any(not job.is_over for job in self._jobs.values())

    def get(self, id: str) -> Job:
        """A job of this hub or another. Raises NotFound, and Unavailable if other hubs cannot be asked."""
        with self._changed:
            if id in self._jobs:
                return _copied(self._jobs[id])
        if self._board and (found := self._board.find(self._workspace.id, id)):
            return _elsewhere(found)
        raise NotFound("there is no such job", at=id[:40], next=Advice(Do("status"), " lists them."))

    def all(self) -> list[Job]:
        """All jobs of this hub, newest first, and then the jobs of other hubs, if they can be asked."""
        with self._changed:
            own = [_copied(job) for job in reversed(self._jobs.values())]
        found: list[Reported] = []
        if self._board:
            with contextlib.suppress(Unavailable):
                found = self._board.others(self._workspace.id, KEPT)
        return [*own, *map(_elsewhere, found)]

    def wait(self, id: str, seconds: float, told: Callable[[Job], None] = lambda job: None) -> Job:
        """The job when it has finished, or after this many seconds. `told` is called with progress; an exception from
        it ends the wait, not the job."""
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
        """Stop after the current document. The job continues when the workspace is opened again."""
        self._stop.set()
        if (thread := self._thread) is not None:
            thread.join()
        with self._changed:
            self._changed.notify_all()
            if self._jobs:
                self._save()

    def _claim(self, request: Request) -> None:
        """Refuse a folder that has the same name as an earlier folder: they would replace each other's nodes."""
        if not request.source:
            return
        path = Path(request.source)
        name = request.uri or path.name
        known = self._roots.get(name)
        if known is not None and known != request.source and Path(known).exists():
            from kgd.daemon.ingestion import kind_of  # as in `_run`

            kind, head = kind_of(path, request.kind)
            if kind.names_itself(head):  # exports are always called conversations.json
                return
            raise InvariantViolation(
                f"'{name[:80]}' was ingested from another place",
                at=known[-80:],
                next=f"Choose another uri, such as {kind.scheme}://{self._workspace.id}/<name>.",
            )
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
            except Exception as error:  # the boundary of a thread's loop: record the failure, then run the next job
                log.exception("a job failed", extra={"job": job.id})
                self._end(job, FAILED, str(error) if isinstance(error, KgdError) else "a defect in kgd; see its log")

    def _run(self, job: Job) -> None:
        # Imported here because it takes an eighth of the time for imports before a daemon listens.
        from kgd.daemon.ingestion import Report, Request, Stopped, TakingIn

        self._report(job)  # including continued jobs: this hub is running again
        report = Report(Counter(job.counts), list(job.trouble), job.more_trouble)
        author = Author(*job.author)
        saved = time.monotonic()

        def submit(edits: tuple[Edit, ...], message: str) -> None:
            self._workspace.submit(ChangeSet(edits, author, message, operation="ingest"))

        def told(done: int, total: int | None, message: str) -> None:
            nonlocal saved
            with self._changed:
                self._note(job, report)
                if is_due := time.monotonic() - saved > SAVED_EVERY:
                    saved = time.monotonic()
                    self._save()
                self._changed.notify_all()
            if is_due:
                self._report(job)

        taking = TakingIn(
            self._workspace,
            Request(job.source, "", job.kind, job.uri),
            submit,
            report,
            told,
            self._stop,
            person_environment(),
            skip=job.done,
            limit=self._limit(),
        )
        try:
            taking.run()
        except Stopped:
            return
        finally:
            with self._changed:
                self._note(job, report)
        with contextlib.suppress(Unavailable):  # an unreadable mentions file does not make the job fail
            Mentions.of(self._workspace)  # load the names now, so that the first search finds them
        self._end(job, DONE)

    def _note(self, job: Job, report: Report) -> None:
        job.done, job.total = max(job.done, report.done), report.total
        job.counts = dict(report.counts)
        job.uris = [str(uri) for uri in report.uris]
        job.trouble, job.more_trouble = list(report.trouble), report.more_trouble

    def _end(self, job: Job, state: str, failure: str = "") -> None:
        with self._changed:
            job.state, job.failure, job.ended = state, failure[:400], time.time()
            self._save()
            self._changed.notify_all()
        self._report(job)

    def _report(self, job: Job) -> None:
        """Show a job at the other hubs. Waits for PostgreSQL, so not under the lock."""
        if self._board:
            with self._changed:
                text = orjson.dumps(asdict(job)).decode()
            self._board.report(self._workspace.id, job.id, text, is_over=job.is_over)

    def _save(self) -> None:
        kept = {"jobs": [asdict(job) for job in self._jobs.values()], "roots": self._roots}
        try:
            replace_file(self._file, orjson.dumps(kept))
        except OSError as error:  # the job continues; after a kill it starts again
            log.warning("jobs could not be saved", extra={"reason": str(error)})


def _copied(job: Job) -> Job:
    return replace(job, counts=dict(job.counts), uris=list(job.uris), trouble=list(job.trouble))


def _elsewhere(found: Reported) -> Job:
    """A job of another hub. If that hub has not reported for a while, the job is shown as failed until it continues."""
    job = _job(orjson.loads(found.job))
    if not job.is_over and found.silent > SILENT_SECONDS:
        job.state = FAILED
        job.failure = (
            f"its hub, {found.hub}, has not reported for {found.silent:.0f} s; it continues the job when it runs"
        )
    return job


def _job(one: Mapping[str, Any]) -> Job:
    name, email, client = map(str, one["author"])
    job = Job(**{**one, "author": (name, email, client)})
    job.id, job.source, job.kind, job.uri = str(job.id), str(job.source), str(job.kind), str(job.uri)
    job.state, job.failure = str(job.state), str(job.failure)
    job.began, job.done, job.more_trouble = float(job.began), int(job.done), int(job.more_trouble)
    job.ended = None if job.ended is None else float(job.ended)
    job.total = None if job.total is None else int(job.total)
    job.counts = {str(name): int(count) for name, count in job.counts.items()}
    job.uris, job.trouble = [str(uri) for uri in job.uris], [str(text) for text in job.trouble]
    return job


def _load(file: Path) -> tuple[list[Job], dict[str, str]]:
    """The saved jobs and roots; empty if the file is missing or damaged."""
    return files.read_state(file, _parse) or ([], {})


def _parse(found: Mapping[str, Any]) -> tuple[list[Job], dict[str, str]]:
    """The jobs and roots in a state file; a file of another shape raises."""
    return [_job(one) for one in found["jobs"]], {str(name): str(root) for name, root in found["roots"].items()}
