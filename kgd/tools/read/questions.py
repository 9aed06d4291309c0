"""The `questions` tool: questions of this machine's users and agents that found nothing."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.errors import Forbidden, NotFound
from kgd.retrieval.query import Question
from kgd.tools import addressing
from kgd.tools.nodes import moment
from kgd.tools.operation import Command, Hints, Operation, option
from kgd.tools.parameters import Params
from kgd.tools.session import Session
from kgd.workspace.questions import Questions
from kgd.workspace.workspace import Workspace


class QuestionsParams(Params):
    dismiss: Annotated[str | None, Field(description="id of a question to remove before listing")] = None
    limit: Annotated[int, Field(ge=1, le=200)] = 20
    workspace: str | None = None


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
        Forbidden: The caller holds a token. Questions of token holders are not recorded.
        NotFound: There is no question to dismiss with this id.
    """
    if session.principal is not None:
        raise Forbidden("a token may not list the questions of this machine", next="Ask the hub's administrator.")
    workspace = addressing.choose(session, params.workspace)
    known, days = Questions.of(workspace), _days(session)
    if params.dismiss is not None and not known.dismiss(params.dismiss):
        raise NotFound("there is no such question", at="dismiss", next="`kgd questions` lists them.")
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


def note(session: Session, workspace: Workspace, question: Question, *, found: bool) -> None:
    """Record that a search of a user of this machine found nothing, or that its question now has an answer.

    A narrowed search is not recorded, since its filters may be the reason; nor is a search of depth 0, which
    suggestions during typing use.
    """
    if session.principal is not None or not question.query.strip():
        return
    if found:
        Questions.of(workspace).found(question.query)
    elif question.max_depth and not any(
        (question.types, question.tags, question.namespace, question.since, question.until, question.min_score)
    ):
        client = session.client.partition(" ")[0]
        Questions.of(workspace).note(question.query, client, workspace.now(), _days(session))


def _days(session: Session) -> int:
    return session.daemon.registry.current().settings.question_days


QUESTIONS = Operation(
    name="questions",
    title="Questions without an answer",
    description="Questions that found nothing on this machine in the last 30 days, newest first.",
    Params=QuestionsParams,
    Result=QuestionsResult,
    hints=Hints(idempotent=True),
    run=questions,
    commands=(
        Command(
            "Care",
            "list questions that found nothing, to write the answer",
            (
                option("--dismiss", "forget this question", "ID"),
                option("--limit", "at most N (20)", "N"),
            ),
            place=95,
            print="printing_context.questions",
        ),
    ),
)
