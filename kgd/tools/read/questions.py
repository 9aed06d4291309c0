"""The `questions` tool: questions of this machine's users and agents that found nothing.

They are in one small file next to the index, with mode 0600, and never in the repository. A question with a likely
secret is stored without the secret. A crash may lose the newest question.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.errors import Advice, Do, NotFound
from kgd.git import files
from kgd.model.dates import DAY
from kgd.retrieval.query import Question
from kgd.tools import addressing
from kgd.tools.nodes import moment
from kgd.tools.operation import LIMIT, Command, Hints, Operation, option
from kgd.tools.parameters import WorkspaceParams
from kgd.tools.session import Session
from kgd.workspace.served import Beside
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.secrets import first_in

MOST = 200
"""Maximum number of questions; the oldest are removed first."""
LONGEST = 200
"""Maximum number of characters of a question; longer ones are texts, and not kept."""
SCANNED = 1_000
"""Maximum number of characters of a text that is searched for secrets at all."""
TYPING_SECONDS = 60
"""A question that continues the one before within this time replaces it: it was still being typed."""
REMOVED = "…"
"""Stands for a likely secret."""

log = logging.getLogger(__name__)


class QuestionsParams(WorkspaceParams):
    dismiss: Annotated[str | None, Field(description="id of a question to remove before listing")] = None
    limit: Annotated[int, Field(ge=1, le=200)] = 20


class QuestionAnswer(TypedDict):
    """`count` is how often it was asked, `at` when last, and `client` by which program."""

    id: str
    text: str
    at: str
    count: int
    client: str


class QuestionsResult(TypedDict):
    workspace: str
    total: int
    questions: list[QuestionAnswer]
    hint: NotRequired[str]


def questions(session: Session, params: QuestionsParams) -> QuestionsResult:
    """List the questions that found nothing, newest first.

    Raises:
        NotFound: There is no question to dismiss with this id.
    """
    workspace = addressing.choose(session, params.workspace)
    known, days = Questions.of(workspace), _days(session)
    if params.dismiss is not None and not known.dismiss(params.dismiss):
        raise NotFound("there is no such question", at="dismiss", next=Advice(Do("questions"), " lists them."))
    found = known.listed(workspace.now(), days)
    answer: QuestionsResult = {
        "workspace": workspace.id,
        "total": len(found),
        "questions": [
            {"id": one.id, "text": one.text, "at": moment(one.at), "count": one.count, "client": one.client}
            for one in found[: params.limit]
        ],
    }
    if not days:
        answer["hint"] = "Questions are not kept: the setting question_days is 0."
    return answer


def note(session: Session, workspace: Workspace, question: Question, *, found: bool, named: bool = False) -> None:
    """Record that a search of a user of this machine found nothing, or that its question now has an answer.

    A narrowed search is not recorded, since its filters may be the reason; nor is a search of depth 0, which
    suggestions during typing use, nor one that only refreshes an answer. A question from a directory outside the
    workspace may be about anything; it is recorded only if the workspace was `named`.
    """
    if session.principal is not None or not question.query.strip():
        return
    if found:
        Questions.of(workspace).found(question.query)
    elif (
        question.max_depth
        and not session.is_refresh
        and (named or session.cwd is None or addressing.own_workspace(session) is workspace)
        and not any(
            (question.types, question.tags, question.namespace, question.since, question.until, question.min_score)
        )
    ):
        client = session.client.partition(" ")[0]
        Questions.of(workspace).note(question.query, client, workspace.now(), _days(session))


def _days(session: Session) -> int:
    return session.daemon.registry.current().settings.question_days


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question without an answer. `client` is the program that asked last, at Unix second `at`."""

    text: str
    client: str
    at: int
    count: int = 1

    @property
    def id(self) -> str:
        return hashlib.sha256(_folded(self.text).encode("utf-8", "surrogatepass")).hexdigest()[:12]


class Questions(Beside):
    """The questions of one workspace, oldest first. Thread-safe. Errors of the file are ignored."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._path = workspace.layout.derived_dir / "questions.json"
        self._open = files.read_state(self._path, _parse) or {}

    def note(self, text: str, client: str, now: int, days: int) -> None:
        """Record a question that found nothing, unless it is an address, a path or a long text, or `days` is 0."""
        if not days or len(text) > SCANNED:
            return
        question = OpenQuestion(_cleaned(text), client, now)
        if not _is_question(question.text):
            return
        with self._lock:
            before = self._open.pop(question.id, None)
            self._drop_unfinished(question)
            self._open[question.id] = replace(question, count=before.count + 1 if before else 1)
            self._keep(now, days)

    def found(self, text: str) -> None:
        """Forget a question that now has an answer."""
        if self._open and len(text) <= SCANNED:
            self.dismiss(OpenQuestion(_cleaned(text), "", 0).id)

    def listed(self, now: int, days: int) -> list[OpenQuestion]:
        """The questions of the last `days` days, newest first."""
        with self._lock:
            if any(one.at <= now - days * DAY for one in self._open.values()):
                self._keep(now, days)
            return list(reversed(self._open.values()))

    def dismiss(self, id: str) -> bool:
        """Forget a question. Returns whether it was there."""
        with self._lock:
            if id not in self._open:
                return False
            del self._open[id]
            self._write()
            return True

    def _drop_unfinished(self, question: OpenQuestion) -> None:
        last = next(reversed(self._open.values()), None)
        if last and question.at - last.at < TYPING_SECONDS and _folded(question.text).startswith(_folded(last.text)):
            del self._open[last.id]

    def _keep(self, now: int, days: int) -> None:
        recent = {id: one for id, one in self._open.items() if one.at > now - days * DAY}
        self._open = dict(list(recent.items())[-MOST:])
        self._write()

    def _write(self) -> None:
        data = json.dumps([asdict(one) for one in self._open.values()]).encode()
        try:
            if self._open:
                files.replace(self._path, data, flush=False, mode=0o600)
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:  # a lost question is harmless
            log.warning("a question was not kept", extra={"reason": str(error)[:200]})


def _cleaned(text: str) -> str:
    """The text on one line, with each likely secret replaced by `REMOVED`."""
    text = " ".join(text.split())
    while found := first_in(text):
        text = text.replace(found.text, REMOVED)
    return text


def _is_question(text: str) -> bool:
    is_path = " " not in text and any(mark in text for mark in "/.:#_")
    return bool(text) and len(text) <= LONGEST and text.isprintable() and not is_path


def _folded(text: str) -> str:
    return text.casefold().rstrip("?!. ")


def _parse(rows: Any) -> dict[str, OpenQuestion]:
    """The questions in a state file; a file of another shape raises."""
    found = [OpenQuestion(str(one["text"]), str(one["client"]), int(one["at"]), int(one["count"])) for one in rows]
    return {one.id: one for one in found[-MOST:]}


QUESTIONS = Operation(
    name="questions",
    title="Questions without an answer",
    description="Questions that found nothing on this machine in the last 30 days, newest first.",
    hints=Hints(idempotent=True),
    run=questions,
    commands=(
        Command(
            "Care",
            "list questions without an answer",
            (option("--dismiss", "remove this question from the list", "ID"), LIMIT),
            place=95,
            print="printing_context.questions",
        ),
    ),
)
