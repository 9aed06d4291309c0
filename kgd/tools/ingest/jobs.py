"""The progress of ingestion jobs, which continue without the caller."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.daemon.jobs import Job, Jobs
from kgd.tools import addressing
from kgd.tools.nodes import moment
from kgd.tools.operation import Hints, Operation
from kgd.tools.parameters import Params
from kgd.tools.session import Session

LISTED = 10
"""Largest number of jobs that `status` lists: unfinished jobs, then the latest finished ones."""
TROUBLES_LISTED = 3
TROUBLES_SHOWN = 50


class JobAnswer(TypedDict):
    """`state` is running, done or failed. A queued job is reported as running with nothing done."""

    id: str
    kind: str
    source: str
    state: str
    done: int
    total: NotRequired[int]
    counts: dict[str, int]
    nodes: list[str]
    trouble: list[str]
    more_trouble: NotRequired[int]
    began: str
    ended: NotRequired[str]
    failure: NotRequired[str]


class JobParams(Params):
    id: str
    wait: Annotated[float, Field(ge=0, le=60, description="seconds to wait for its end")] = 0
    workspace: str | None = None


def job(session: Session, params: JobParams) -> JobAnswer:
    """The state of a job. With `wait`, returns when the job has ended, or after that many seconds."""
    workspace = addressing.choose(session, params.workspace)
    jobs = session.daemon.jobs(workspace)
    return shown(jobs.wait(params.id, params.wait, lambda one: session.progress(one.done, one.total, one.source)))


def listed(jobs: Jobs) -> list[JobAnswer]:
    """Unfinished jobs, then the newest finished jobs, each with a few problems."""
    found = jobs.all()
    chosen = [one for one in found if not one.is_over] + [one for one in found if one.is_over]
    return [shown(one, TROUBLES_LISTED, nodes=3) for one in chosen[:LISTED]]


def shown(job: Job, troubles: int = TROUBLES_SHOWN, *, nodes: int = 100) -> JobAnswer:
    answer: JobAnswer = {
        "id": job.id,
        "kind": job.kind,
        "source": job.source,
        "state": job.state,
        "done": job.done,
        "counts": {name: count for name, count in sorted(job.counts.items()) if count},
        "nodes": job.uris[:nodes],
        "trouble": job.trouble[:troubles],
        "began": moment(job.began),
    }
    if job.total is not None:
        answer["total"] = job.total
    if more := job.more_trouble + len(job.trouble[troubles:]):
        answer["more_trouble"] = more
    if job.ended is not None:
        answer["ended"] = moment(job.ended)
    if job.failure:
        answer["failure"] = job.failure
    return answer


JOB = Operation(
    name="job",
    title="Progress of a job",
    description="The progress of an ingestion.",
    hints=Hints(read_only=True, idempotent=True),
    run=job,
)
