"""The `advance` tool: moves a task to another status, and records its lessons on completion."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NotRequired

import orjson
from pydantic import BeforeValidator, Field, WithJsonSchema
from typing_extensions import TypedDict

from kgd.areas.patterns import normalise
from kgd.errors import Advice, Do, Invalid, KgdError, Stale
from kgd.memories.keywords import first_words, hashed_name, keywords, memory, without_path
from kgd.memories.tasks import ITEMS_LIMIT, NEXT, STATUSES, TERMINAL, Section, Task, parsed, read_paths, with_sections
from kgd.model.access import Verb
from kgd.model.change import ChangeSet, Upsert, subject_from
from kgd.model.node import TAGS_LIMIT, Json, Node, Relation, Source, cut_at_word
from kgd.model.uri import Uri, build, path_of, scheme_of, segments_of, uri_at
from kgd.tools.areas import ids
from kgd.tools.areas.answers import Envelope, answered, enveloped
from kgd.tools.nodes import Found, moment
from kgd.tools.operation import Hints, Operation
from kgd.tools.paging import present
from kgd.tools.parameters import Params, WorkspaceParams, read_many, refuse_unseen
from kgd.tools.session import Session
from kgd.tools.tasks import (
    SectionAnswer,
    TaskAnswer,
    sections_answer,
    status_named,
    task_answer,
    task_at,
    task_of,
)
from kgd.tools.visibility import Sees
from kgd.workspace.answers import Outcome
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.edits import upserted
from kgd.workspace.writing.writer import Staged

SUGGESTED_ACTIONS = (
    "Update atom knowledge for areas affected by this task",
    "Update atom paths if files were moved or new directories created",
    "Append changelog entries for significant changes",
)
LOOKED_AT = 50
"""Number of versions of a task that are searched for the change that set its status."""
ATTEMPTS = 10
"""Largest number of attempts to complete a task while concurrent calls record the same facts."""
OWN = "changes[0]"
"""The place of an error about the task itself, whose edit comes first."""
_NUMBER = re.compile(r"^changes\[\d+\]\s*")

CONNECTED_TO, ABOUT = "connected_to", "about"
ABOUT_COST = 0.5
FEW = 5
"""Largest number of files that an item is about; more files would describe the task, not the item."""
PATHS_LOOKED_AT = 50
KINDS = (("pattern", "patterns"), ("gotcha", "gotchas"))
"""Node type, and the field of `Task` that has the items."""


def _read_sections(value: Any) -> Any:
    """Accept, instead of a list, one section, a mapping of titles to texts, or the JSON text of any of these."""
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    if isinstance(value, Mapping) and not {"title", "content"} & set(value):
        return [{"title": title, "content": content} for title, content in value.items()]
    return read_many(value)


def _read_content(value: Any) -> Any:
    """Accept a list of lines instead of a text."""
    if isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    return value


class SectionParams(Params):
    title: Annotated[str, Field(min_length=1, max_length=255)]
    content: Annotated[str, BeforeValidator(_read_content)]


Sections = Annotated[
    list[SectionParams],
    BeforeValidator(_read_sections),
    Field(max_length=100),
    WithJsonSchema(
        {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["title", "content"],
                "properties": {"title": {"type": "string"}, "content": {"type": "string"}},
            },
            "description": "added, or replaces its title's section: "
            "Handoff Notes, Patterns, Gotchas (one item per line)",
        }
    ),
]


class AdvanceParams(WorkspaceParams):
    containerType: Literal["task"] = "task"
    id: Annotated[str, Field(min_length=1, description="URI or name")]
    version: Annotated[int, Field(ge=0, description="the version you read")]
    to: Annotated[str | None, Field(description=f"{', '.join(STATUSES)}; the next one if left out")] = None
    sections: Sections = Field(default_factory=list)
    summary: Annotated[str | None, Field(description="the result, <= 100 chars")] = None
    projectId: Annotated[str | None, Field(description="a workspace")] = None


class Hint(TypedDict):
    message: str
    suggestedActions: list[str]


class RecordedAnswer(TypedDict):
    """`known`: the node existed before."""

    id: str
    type: str
    summary: str
    known: NotRequired[bool]


class Already(TypedDict):
    """Time and author of the task's current status."""

    at: str
    by: str
    commit: str


class AdvanceData(TypedDict):
    task: TaskAnswer
    sections: list[SectionAnswer]
    commit: str | None
    already: NotRequired[Already]
    recorded: NotRequired[list[RecordedAnswer]]
    graphHints: NotRequired[Hint]
    warnings: NotRequired[list[str]]


def advance(session: Session, params: AdvanceParams) -> Envelope[AdvanceData]:
    """Change the task's status and sections and, on completion, record its lessons, all in one commit."""
    workspace = ids.project(session, params.workspace, params.projectId, [params.id], writing=True)
    _check_texts(params)
    found = task_at(session, workspace, params.id)
    _check_version(found, params.version)
    try:
        to = _status_after(task_of(found), params.to)
    except Invalid:  # another call may just have ended the task: check its version once the writer is idle
        workspace.run(lambda staging, parent: Staged[object](None), alone=False)
        _check_version(task_at(session, workspace, params.id), params.version)
        raise
    given = [Section(one.title.strip(), one.content) for one in params.sections]
    sees = session.sight(workspace.id)
    edit = _own_edit(workspace, found, to, given, params.summary, sees)
    assert found.stored is not None
    after = parsed(upserted(found.stored, edit))
    recorded = learned(workspace, after, sees) if to == "completed" else _NOTHING
    for attempt in range(ATTEMPTS):
        changes = ChangeSet(
            (edit, *recorded.edits),
            session.author(workspace),
            subject_from("task", f"{after.name}:", to),
            operation="advance",
        )
        try:
            outcome = session.submit(workspace, changes)
            break
        except Stale as stale:
            if stale.at.startswith(OWN) or not recorded.new or attempt == ATTEMPTS - 1:
                raise _stale(found, params.version, stale.current) from stale
            recorded = learned(workspace, after, sees)  # a concurrent call recorded one of these facts
        except KgdError as error:
            error.at = _NUMBER.sub("", error.at)  # the number of an edit that the caller never saw
            raise
    return answered(_answer(session, workspace, found, to, recorded, outcome))


def _answer(
    session: Session, workspace: Workspace, before: Found, to: str, recorded: Recorded, outcome: Outcome
) -> AdvanceData:
    """The new state of the task, the recorded nodes, and hints after its end."""
    now = task_at(session, workspace, before.uri)
    task = task_of(now)
    data: AdvanceData = {"task": task_answer(now, task), "sections": sections_answer(task), "commit": outcome.commit}
    data |= present(already=_since(workspace, now.uri, to) if task_of(before).status == to else None)
    if to == "completed":
        data["recorded"] = [_line(workspace, uri) for uri in recorded.new]
        data["recorded"] += [{**_line(workspace, uri), "known": True} for uri in recorded.known]
    if to in TERMINAL:
        data["graphHints"] = {
            "message": f"Task {to}. Consider updating the knowledge graph.",
            "suggestedActions": list(SUGGESTED_ACTIONS),
        }
    told = [text for text in outcome.warnings if not text.endswith("nothing changed")]
    data |= present(warnings=[*recorded.warnings, *told])
    return data


def _check_texts(params: AdvanceParams) -> None:
    refuse_unseen(params.summary, "summary")
    for number, one in enumerate(params.sections):
        refuse_unseen(one.title, f"sections[{number}].title")
        refuse_unseen(one.content, f"sections[{number}].content", lines=True)
        if not one.title.strip():
            raise Invalid("a section needs a title", at=f"sections[{number}].title", next="Handoff Notes, for example.")


def _check_version(found: Found, version: int) -> None:
    """Refuse an outdated version first, before an error about a status change that is no longer allowed."""
    current = found.version.count if found.version else 0
    if version != current:
        raise _stale(found, version, current)


def _stale(found: Found, version: int, current: int) -> Stale:
    return Stale(
        f"the task is at version {current}, but the change expected {version}",
        current=current,
        at=found.uri,
        next=Advice(
            "Read it again with ", Do("query_container", operation="get"), ", then call advance with that version."
        ),
    )


def _status_after(task: Task, wanted: str | None) -> str:
    """The new status.

    Raises:
        Invalid: There is no such status, or the task cannot change to it; the error names the possible statuses.
    """
    allowed = NEXT.get(task.status, STATUSES)
    if wanted is None:
        if task.status in NEXT and allowed:
            return allowed[0]
        why = "has no next status" if not allowed else "its status is unknown to kgd"
        raise Invalid(f"this task is {task.status}, and {why}", at="to", next=_ways(task.status, allowed))
    to = status_named(wanted, at="to")
    if to != task.status and to not in allowed:
        raise Invalid(f"a task that is {task.status} cannot become {to}", at="to", next=_ways(task.status, allowed))
    return to


def _ways(status: str, allowed: Sequence[str]) -> str:
    if allowed:
        return f"From here: {', '.join(allowed)}."
    return f"{status.capitalize()} is final; create a new task that depends_on this one."


def _own_edit(
    workspace: Workspace, found: Found, to: str, given: Sequence[Section], summary: str | None, sees: Sees | None
) -> Upsert:
    """The edit of the task's own node."""
    node = found.stored
    assert node is not None
    data: dict[str, Any] = {} if node.data.get("status") == to else {"status": to}
    if given:
        data["sections"] = with_sections(node.data.get("sections"), given)
    edit = Upsert(found.uri, summary=summary, data=data, expect_version=found.version.count if found.version else 0)
    if to != "completed":
        return edit
    task = parsed(upserted(node, edit))
    missing = [tag for tag in own_tags(task) if tag not in node.tags]
    tags = tuple(missing[: max(0, TAGS_LIMIT - len(node.tags))])
    there = (uri for uri in task.depends_on if workspace.graph.resolve(uri) in workspace.graph)
    relations = [Relation(CONNECTED_TO, uri) for uri in there]
    relations += [Relation(ABOUT, uri, ABOUT_COST) for uri in about_files(workspace, task.files, sees)]
    added = tuple(one for one in relations if node.relation(one.type, one.target) is None)
    shown = summary if summary or node.summary else own_summary(task)
    return Upsert(edit.uri, summary=shown, tags=tags, data=data, relations=added, expect_version=edit.expect_version)


def _since(workspace: Workspace, uri: Uri, status: str) -> Already | None:
    """The change that set the task's status; None if it is not among the newest."""
    for entry in workspace.history.entries(uri=uri, limit=LOOKED_AT):
        for change in workspace.history.changes(entry.commit, [uri]):
            was, is_now = (parsed(node).status if node else None for node in (change.before, change.after))
            if is_now == status != was:
                return {"at": moment(entry.at), "by": entry.author, "commit": entry.commit}
    return None


def _line(workspace: Workspace, uri: str) -> RecordedAnswer:
    card = workspace.graph.card(uri)  # type: ignore[arg-type]
    return {"id": uri, "type": card.type if card else "", "summary": card.summary if card else ""}


ADVANCE = Operation(
    name="advance",
    title="Advance a task",
    description=(
        "Moves a task to its next status (pending, in-progress, completed; or cancelled), with sections added or "
        "replaced. On completion each line of the sections Patterns and Gotchas becomes a node. Needs the "
        "version you read."
    ),
    hints=Hints(),
    run=advance,
    commits={"advance": "wrote"},
    refusal=enveloped,
    offered="tasks",
    place=20,
    scope=Verb.WRITE,
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The edits of a completion, apart from the task's own. `new` nodes are created; `known` nodes are only linked."""

    edits: tuple[Upsert, ...]
    new: tuple[Uri, ...]
    known: tuple[Uri, ...]
    warnings: tuple[str, ...]


_NOTHING = Recorded((), (), (), ())


def learned(workspace: Workspace, task: Task, sees: Sees | None = None) -> Recorded:
    """One node for each pattern and gotcha, linked to the task. Known facts are only linked.

    A node's URI contains a digest of its text, so that repeated completions of a task, even in two clones, name the
    same nodes. The node is in the namespace of the task, so that the same write permission applies.
    """
    edits, new, known, warnings = [], [], [], []
    for type, field in KINDS:
        texts: tuple[str, ...] = getattr(task, field)
        if len(texts) > ITEMS_LIMIT:
            warnings.append(f"only {ITEMS_LIMIT} of {len(texts)} {field} were recorded: write one item per line")
        for text in texts[:ITEMS_LIMIT]:
            uri, there = _place(workspace, task, type, text, sees)
            connection = Relation(CONNECTED_TO, task.uri)
            if there is None:
                edits.append(_made(workspace, uri, type, text, task, sees))
                new.append(uri)
            else:
                known.append(uri)
                if there.relation(CONNECTED_TO, task.uri) is None:
                    edits.append(Upsert(uri, relations=(connection,)))
    return Recorded(tuple(edits), tuple(new), tuple(known), tuple(warnings))


def own_tags(task: Task) -> tuple[str, ...]:
    """Keywords of the objective and of the notes that the task hands over."""
    return keywords(f"{task.objective}\n\n{task.notes}")


def own_summary(task: Task) -> str:
    """A summary for a task without one: the first line of its notes or, without notes, of its objective, cut to one
    line."""
    return cut_at_word(
        next(
            (
                line
                for text in (task.notes, task.objective)
                for line in text.splitlines()
                if any(map(str.isalnum, line))
            ),
            task.name,
        )
    )


def about_files(workspace: Workspace, paths: Sequence[str], sees: Sees | None = None) -> list[Uri]:
    """The files and directories of the code tree for these paths; missing files are left out.

    Files that the caller may not see (`sees`) are left out too: a relation would reveal that they exist.
    """
    found = []
    for path in paths[:PATHS_LOOKED_AT]:
        place = normalise(path, workspace.layout.code_tree, workspace=workspace.id)
        for scheme in ("file", "dir") if place else ():
            uri = uri_at(scheme, workspace.id, place or "")
            if uri is not None and (sees is None or sees(uri)) and workspace.in_overlay(uri):
                found.append(uri)
                break
    return list(dict.fromkeys(found))


def _made(workspace: Workspace, uri: Uri, type: str, text: str, task: Task, sees: Sees | None) -> Upsert:
    """The node of one item. The node is about the files that the item names, and cites them, so that it becomes stale
    when they change. An item without files is about the files of its task, if these are few.
    """
    named = about_files(workspace, read_paths(text), sees)
    about = named or about_files(workspace, task.files, sees)
    relations = [Relation(CONNECTED_TO, task.uri)]
    if len(about) <= FEW:
        relations += [Relation(ABOUT, one, ABOUT_COST) for one in about]
    cites: list[Json] = [path_of(one) for one in named if scheme_of(one) == "file"]
    made = memory(uri, type, text, relations=relations)
    return replace(made, data={"cites": cites} if cites else {}, source=Source("task", task.uri))


def _place(workspace: Workspace, task: Task, type: str, text: str, sees: Sees | None) -> tuple[Uri, Node | None]:
    """The URI of a fact, and its node if it exists, whether a task recorded it or a user wrote the same text."""
    folder, topic = segments_of(task.uri)[:-1], without_path(text)
    uri = workspace.graph.resolve(build(type, workspace.id, [*folder, hashed_name(topic, text).encode()]))
    if (node := workspace.node(uri)) is not None:
        return uri, node
    remembered = workspace.graph.resolve(build(type, workspace.id, [first_words(topic).encode()]))
    node = workspace.node(remembered) if sees is None or sees(remembered) else None
    if node is not None and text.split() in (node.content.split(), node.summary.split()):
        return remembered, node
    return uri, None
