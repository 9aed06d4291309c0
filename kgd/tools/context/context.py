"""The `context` tool: in one call, the knowledge to read before touching code."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.areas.atlas import Atlas
from kgd.code_history.history import CodeHistory
from kgd.errors import Advice, Do, Invalid, KgdError, NotFound
from kgd.memories import tasks
from kgd.model.access import Verb
from kgd.model.escaping import printable
from kgd.model.node import Node
from kgd.model.uri import Uri, build, is_owned
from kgd.tools import addressing, as_markdown, code_facts, file_paths, origins, worktrees
from kgd.tools.context import gathering, packing, past
from kgd.tools.context.gathering import CodeAnswer, Findings
from kgd.tools.context.packing import CutAnswer, ItemAnswer
from kgd.tools.context.past import (
    WHOLE_ANSWER,
    AskedLines,
    ChangeAnswer,
    KnownByAnswer,
    LikelyFileAnswer,
    LineAnswer,
    TogetherAnswer,
)
from kgd.tools.file_paths import Places, common_directory, places, sentences
from kgd.tools.operation import BUDGET, CONTEXT_ID, SINCE, UNTIL, USUAL, Command, Hints, Operation, option
from kgd.tools.origins import Origin, marks
from kgd.tools.paging import size_of
from kgd.tools.parameters import Many, When, WorkspaceParams, future, period
from kgd.tools.read.search import UNSEARCHED, unembedded, unindexed
from kgd.tools.session import Hint, Session, enter_working_set, working_set
from kgd.workspace.workspace import Workspace

LEAST_BUDGET = 200
EMBEDDED_WITHIN = 3.0
"""Seconds that a question without results waits for texts to be embedded."""
MOST_CODE = 20
"""Largest number of nodes of the code tree in an answer."""
OPTIONAL = ("described", "code", "lines", "unknown_lines", "unknown_paths", *past.OPTIONAL)
"""Lists that are left out of an answer if they are empty."""
_ALWAYS = ("items", "changes", "changed_together", "unmatched_paths", "cut")
"""Lists that every answer has."""
SHRUNK = (
    "working_set",
    "hint",
    "notes",
    "nearest",
    "code",
    *past.OPTIONAL,
    "changed_together",
    "changes",
    "described",
    "missing",
    "items",
    "lines",
    "unknown_lines",
    "unknown_paths",
    "unmatched_paths",
    "cut",
)
"""Lists in the order in which they are cut if an answer is too large."""
GAPS_NAMED = 20
"""Largest number of patterns in a suggested area."""
RENAMES = 3
"""Largest number of renamed paths in the message about missing ones."""


class ContextParams(WorkspaceParams):
    paths: Annotated[Many[str], Field(max_length=1_000, description="files, FILE:LINE, FILE#SYMBOL, directories")] = (
        Field(default_factory=list)
    )
    task: Annotated[str, Field(max_length=20_000, description="a task's URI, or its text")] = ""
    question: Annotated[str, Field(max_length=2_000)] = ""
    include: Annotated[Many[Literal["symbols"]], Field(description="also the files' own symbols and imports")] = Field(
        default_factory=list
    )
    since: When = None
    until: When = None
    budget: Annotated[int, Field(ge=LEAST_BUDGET, description="tokens")] = 4_000
    context_id: str | None = None


class Call(TypedDict):
    tool: str
    arguments: dict[str, Any]


class Missing(TypedDict):
    """A gap in the knowledge, and calls that only need the text to fill it."""

    message: str
    record: NotRequired[list[Call]]


class ContextResult(TypedDict):
    """`items` is knowledge that people and agents wrote; `code` is from the code tree. `nearest` lists the closest
    nodes if nothing in `items` answers the question. `unmatched_paths` do not belong to an area; `described` are those
    of them to which other nodes refer.

    `notes`: why the answer may lack texts or history, or differ from the caller's code.
    `lines`: the commits of the requested lines; `unknown_lines` and `unknown_paths`: sentences about lines, symbols and
    paths that do not exist.
    `likely_files` and `tried_before`: from past commits about a task. `working_set`: with a `context_id`, the nodes
    that the conversation saw before this call, the most recent first.
    """

    workspace: str
    items: list[ItemAnswer]
    code: NotRequired[list[CodeAnswer]]
    nearest: NotRequired[list[str]]
    notes: NotRequired[list[str]]
    changes: list[ChangeAnswer]
    changed_together: list[TogetherAnswer]
    lines: NotRequired[list[LineAnswer]]
    unknown_lines: NotRequired[list[str]]
    unknown_paths: NotRequired[list[str]]
    known_by: NotRequired[list[KnownByAnswer]]
    likely_files: NotRequired[list[LikelyFileAnswer]]
    tried_before: NotRequired[list[ChangeAnswer]]
    unmatched_paths: list[str]
    described: NotRequired[list[str]]
    missing: NotRequired[Missing]
    cut: list[CutAnswer]
    context_id: NotRequired[str]
    working_set: NotRequired[list[str]]
    hint: NotRequired[Hint]
    origin: NotRequired[Origin]


@dataclass(slots=True)
class _Asked:
    """The findings about a question, before they are cut to a budget."""

    findings: Findings
    places: Places = field(default_factory=Places)
    covered: gathering.Covered = field(default_factory=gathering.Covered)
    about: str = ""
    task: str = ""
    """The URI of the task in the call; empty without one."""
    lines: list[AskedLines] = field(default_factory=list)
    unknown_symbols: list[str] = field(default_factory=list)
    """A sentence for each symbol of the call that does not exist."""
    query: str = ""
    """The text of the task or the question, for the history of the code."""


def context(session: Session, params: ContextParams) -> ContextResult:
    """The knowledge about paths, a task or a question, most useful first; never larger than the budget."""
    _check_asked(params)
    texts = [*params.paths, *([params.task] if "://" in params.task[:40] and " " not in params.task else [])]
    workspace = addressing.choose(session, params.workspace, texts)
    named = file_paths.names(session, workspace, params.paths)
    params = _with_sentences_asked(session, workspace, params, named)
    symbols = {name: code_facts.called(session, workspace, name) for name in named}
    asked = _gathered(session, workspace, params, symbols)
    if params.question.strip() and not asked.findings.ordered() and workspace.meaning.catch_up(EMBEDDED_WITHIN):
        asked = _gathered(session, workspace, params, symbols)  # texts written a moment ago may match by meaning now
    if params.question.strip():
        gathering.note_question(asked.findings, params.question, named=params.workspace is not None)
    found = asked.findings.dated()
    answer: dict[str, Any] = {"workspace": workspace.id, **{name: [] for name in _ALWAYS}}
    if not found and (advice := future(params.since)):
        answer["missing"] = {"message": advice}
    elif missing := _missing(asked, bool(found)):
        answer["missing"] = missing
        if size_of(answer) > params.budget * packing.BYTES_PER_TOKEN // 2:
            answer["missing"] = {"message": missing["message"]}
    unknown = [text for text, is_symbol in named.items() if not is_symbol]
    if unknown and "missing" in answer and not past.unread(session, workspace):
        _note_unknown(answer["missing"], printable(unknown[0]))
    line_answers = past.answers(session, workspace, asked.lines)
    limits = [unindexed(session, workspace), unembedded(session, workspace) if asked.query else ""]
    told = answer.get("missing", {}).get("message", "")
    notes = [one for one in limits if one and one not in told]
    if notes := [*notes, *_notes(session, workspace, asked, named, line_answers)]:
        answer["notes"] = notes
    sides: dict[str, Sequence[Any]] = {
        "unmatched_paths": list(map(printable, asked.covered.unmatched)),
        "described": list(map(printable, asked.covered.described)),
        "code": list(asked.findings.code.values())[:MOST_CODE],
        "lines": line_answers,
        "unknown_lines": [*past.unknown(session, workspace, asked.lines), *asked.unknown_symbols],
        "unknown_paths": past.unknown_paths(session, workspace, [*asked.places.absent, *unknown], asked.lines)
        if asked.places.asked or unknown
        else [],
        **past.sides(asked.findings, asked.places.asked, asked.places.files, asked.query),
    }
    room = packing.room_of(params.budget, size_of(answer) + len("described") + 6)
    doubts = marks(workspace, [one.uri for one in found], asked.findings.sees)
    filled, cut = packing.fill(room, workspace, found, sides, doubts, asked.findings.sees)
    if beyond := sum(asked.findings.beyond.values()):
        cut["relations"] += beyond
    if asked.places.more:
        cut["files"] += asked.places.more
    if asked.findings.nearest and not found:
        answer["nearest"] = list(asked.findings.nearest)
    answer |= {name: found for name, found in filled.items() if found or name not in OPTIONAL}
    answer["cut"] = packing.told(cut)
    trust = origins.trust_in(session, workspace)
    if trust != "local":
        answer["origin"] = {"workspace": workspace.id, "trust": trust}
    if trust == "remote":
        answer = origins.fence(answer)
    if params.context_id:
        answer["working_set"] = working_set(session, workspace, params.context_id)
    answer.update(enter_working_set(session, params.context_id, [Uri(item["uri"]) for item in answer["items"]]))
    packing.shrink(answer, params.budget, SHRUNK)
    return answer  # type: ignore[return-value]


def _notes(
    session: Session, workspace: Workspace, asked: _Asked, named: Collection[str], found: Sequence[LineAnswer]
) -> list[str]:
    """The limits of an answer about code. Without paths, these are only unread code and another work tree."""
    if asked.places.asked:
        return past.notes(session, workspace, asked.lines, found)
    is_code = bool(named) or bool(asked.findings.code)
    tree = worktrees.note(workspace, session.own_cwd, WHOLE_ANSWER) if is_code else ""
    return [*filter(None, [past.unread(session, workspace), tree])]


def _note_unknown(missing: Missing, name: str) -> None:
    """Explain first how to ask about a new file, if no symbol has the requested name."""
    told = f"The code has no file, folder or symbol called {name}; write ./{name} for a new file. "
    missing["message"] = told + missing["message"]


def _check_asked(params: ContextParams) -> None:
    if not (any(map(str.strip, params.paths)) or params.task.strip() or params.question.strip()):
        if params.paths:
            raise Invalid("a path is empty", at="paths", next="Give a path of the code tree, such as src/app.py.")
        raise Invalid(
            "there is nothing to look for", at="paths", next="Give `paths`, a `task` (URI or text) or a `question`."
        )


def _with_sentences_asked(
    session: Session, workspace: Workspace, params: ContextParams, named: Collection[str]
) -> ContextParams:
    """The parameters; names among the paths and, without a question, sentences become the question."""
    question = params.question.strip()
    found = [*named, *([] if question else sentences(session, workspace, params.paths))]
    if not found:
        return params
    paths = [text for text in params.paths if text not in found]
    return params.model_copy(update={"paths": paths, "question": " ".join(filter(None, [*found, question]))})


def _gathered(
    session: Session, workspace: Workspace, params: ContextParams, symbols_of: Mapping[str, Sequence[Uri]]
) -> _Asked:
    """All findings for the paths, the task, the question and these names, each with its symbols, together."""
    asked = _Asked(Findings(session, workspace, *period(params.since, params.until)))
    if len(symbols_of) > 1:  # a single name is the question, and finds these facts
        gathering.by_symbols(asked.findings, [uri for found in symbols_of.values() for uri in found])
    asked.findings.with_symbols = "symbols" in params.include
    texts = list(params.paths)
    if params.task.strip():
        node = _task(session, asked.findings, params.task.strip())
        if node is None:
            is_alone = not (texts or symbols_of)
            gathering.by_keywords(asked.findings, params.task, gathering.ANSWER if is_alone else gathering.FAR)
            asked.about, asked.query = "this task", params.task
        else:
            task = tasks.parsed(node)
            gathering.by_task(asked.findings, task)
            texts += task.files
            asked.about, asked.task = task.name, node.uri
            asked.query = f"{task.name}\n{task.objective}"
    if params.question.strip():
        gathering.by_question(asked.findings, params.question)
        asked.about, asked.query = asked.about or "this question", asked.query or params.question
    few = [one for one in symbols_of.values() if len(one) <= code_facts.FEW_CALLED]
    gathering.by_files_of(asked.findings, [uri for found in few for uri in found])
    if texts:
        texts, symbols = past.with_symbols(session, workspace, texts)
        known = gathering.by_symbols(asked.findings, symbols)
        asked.unknown_symbols = past.unknown_symbols(workspace, symbols, known)
        texts, named = past.separated(session, workspace, texts)
        asked.lines = [
            one._replace(path=place) for one in named for place in places(session, workspace, [one.path]).asked
        ]
        past.add_citing(asked.findings, asked.lines)
        asked.places = places(session, workspace, texts)
        if not (asked.places.asked or asked.about):
            _refuse_outside(session, workspace, asked.places.outside)
        asked.covered = gathering.by_paths(asked.findings, asked.places)
    return asked


def _refuse_outside(session: Session, workspace: Workspace, outside: Sequence[str]) -> None:
    """Refuse a call of which no path is in the code tree."""
    for text in outside[:1]:
        root = workspace.layout.code_tree if session.principal is None else None
        if "://" in text:
            fault, advice = "this is not a path of the code tree", Advice("See a node with ", Do("get", uris=text), ".")
        elif root is None and session.principal is None:
            fault, advice = "this workspace has no code tree, so it has no file paths", Advice("Give a `question`.")
        else:
            fault = "this path is outside the code tree of the workspace"
            advice = Advice(f"Give a path below {root or 'its top'}.")
        raise Invalid(fault, at=text, next=advice)


def _task(session: Session, findings: Findings, text: str) -> Node | None:
    """The node of a task, by its URI, short id or name; None if the text describes the task itself.

    Raises:
        NotFound: The text is an address without a node.
    """
    is_uri = text.startswith("task:") or (" " not in text and (text.startswith("./") or "://" in text))
    if not is_uri and ("\n" in text or len(text) > 200):
        return None
    workspace = findings.workspace
    try:
        named = [addressing.resolve(session, workspace, text, at="task")] if is_uri else _tasks_called(workspace, text)
    except Invalid:
        if "://" in text:
            raise
        return None  # a sentence that begins like a URI
    for uri in named:
        current = workspace.graph.resolve(uri)
        node = workspace.node(current) if findings.may_see(current) else None
        if node is not None:
            return node
    if is_uri and ("://" in text or (text.startswith("task:") and " " not in text)):
        told = Advice("Find it with ", Do("search", types="task"), ".") if is_owned(uri) else "Give its text instead."
        raise NotFound("there is no such task here", at="task", next=told)
    return None


def _tasks_called(workspace: Workspace, text: str) -> list[Uri]:
    """The URIs for a short id or a name of a task."""
    raw = text.strip("/").encode("utf-8", "surrogatepass")
    found = []
    for segments in (raw.split(b"/"), [raw]):
        with contextlib.suppress(KgdError):
            found.append(build("task", workspace.id, segments))
    return found


def _missing(asked: _Asked, is_known: bool) -> Missing | None:
    """The gaps in the knowledge about the paths, task or question, with calls that fill them; None if there are no
    gaps."""
    gaps = [printable(path) for path in asked.covered.unmatched if path not in asked.places.outside]
    workspace = asked.findings.workspace.id
    if asked.places.asked or asked.places.outside:
        if not gaps:
            return None if is_known else {"message": _outside(asked)}
        described, new = (set(map(printable, paths)) for paths in (asked.covered.described, asked.places.absent))
        bare = [path for path in gaps if path not in described]
        what = f"{len(gaps)} of the paths belong to no area" if len(gaps) > 1 else f"{gaps[0]} belongs to no area"
        which = "it" if len(gaps) == 1 else "them" if len(bare) == len(gaps) else f"{len(bare)} of them"
        also = f", and nothing names {which} by path" if bare else ""
        renamed = _renamed(asked)
        absent = [path for path in gaps if path in new and path not in renamed]
        told = f" {_some(absent)} not in the code tree yet{_like(asked, absent)}." if absent else ""
        told += "".join(f" {was} was renamed to {now}." for was, now in islice(renamed.items(), RENAMES))
        if any(" " in path for path in absent):
            told += " Pass a sentence as `task` or `question`."
        message = f"{what}{also}.{told} Record what the code does not show: reasons, rules, gotchas."
        area = _an_area(asked, gaps)
        return {"message": message, "record": [area, _a_trap(workspace, [*bare, *gaps][0])]}
    if is_known:
        return None
    if hint := unindexed(asked.findings.session, asked.findings.workspace):
        return {"message": hint}
    if asked.findings.sees is None and asked.findings.workspace.meaning.is_behind:
        return {"message": UNSEARCHED}
    return {
        "message": f"Nothing is known about {asked.about}. When you find out, record it.",
        "record": [_a_trap(workspace, "")],
    }


def _some(paths: Sequence[str]) -> str:
    if len(paths) == 1:
        return f"{paths[0]} is"
    named = ", ".join([*paths[:3], *(["..."] if len(paths) > 3 else [])])
    return f"{len(paths)} of them ({named}) are"


def _renamed(asked: _Asked) -> dict[str, str]:
    """The present paths of the missing ones that were renamed, as far as this caller may know."""
    if asked.findings.session.principal is not None:
        return {}
    renamed = CodeHistory.of(asked.findings.workspace).renamed
    return {printable(path): printable(now) for path in asked.places.absent if (now := renamed(path))}


def _like(asked: _Asked, absent: Sequence[str]) -> str:
    """The node that a single missing path names, otherwise the files to which it is similar; it may be misspelt."""
    findings = asked.findings
    return past.node_or_similar(findings.session, findings.workspace, absent[0]) if len(absent) == 1 else ""


def _outside(asked: _Asked) -> str:
    if asked.places.outside:
        return "None of these paths is in the code tree. Give them relative to its top."
    return "The code tree has no files there, and nothing else is known about it."


def _an_area(asked: _Asked, gaps: Sequence[str]) -> Call:
    """A suggested call that creates an area for the folder of the gaps, or for the files alone if the folder has areas.

    Uses `manage_graph` if there is a task, which that tool requires, otherwise `put`.
    """
    findings = asked.findings
    workspace, folder = findings.workspace, common_directory(gaps)
    hidden = findings.sees is not None  # the patterns must not reveal an area to a caller who may not see all areas
    is_free = folder and (hidden or not Atlas.of(workspace).begins(folder))
    patterns = [f"{folder}/**"] if is_free else list(gaps[:GAPS_NAMED])
    name, knowledge = "<the area>", "<rules, reasons and gotchas>"
    if not asked.task:
        change = {"op": "upsert", "type": "atom", "name": name, "content": knowledge, "data": {"paths": patterns}}
        return {"tool": "put", "arguments": {"changes": [change]}}
    return {
        "tool": "manage_graph",
        "arguments": {
            "operation": "create",
            "entityType": "atom",
            "projectId": workspace.id,
            "name": name,
            "paths": patterns,
            "knowledge": knowledge,
            "createdByTaskId": asked.task,
        },
    }


def _a_trap(workspace: str, path: str) -> Call:
    change: dict[str, Any] = {
        "op": "upsert",
        "type": "gotcha",
        "name": "<in a few words>",
        "summary": "<in one sentence>",
    }
    if path:
        change["relations"] = [{"type": "about", "target": f"./{path}"}]
    return {"tool": "put", "arguments": {"changes": [change]}}


CONTEXT = Operation(
    name="context",
    title="What must I know",
    description=(
        "Team knowledge to read before you touch files, begin a task or answer a question: rules of the areas, "
        "gotchas, patterns, decisions, neighbours, recent changes, files without an area. Give paths, task or question."
        " `more` has the get arguments for the full text."
    ),
    hints=Hints(read_only=True, idempotent=True),
    run=context,
    text=as_markdown.briefing,
    forwards=True,
    offered=USUAL,
    place=40,
    scope=Verb.READ,
    commands=(
        Command(
            "Reading",
            "show the team's knowledge about files, a task or a question",
            (
                option("paths", "files or directories of the code, a symbol, or a question", "PATH", nargs="*"),
                option("--task", "a task's URI or name, or its text", "TASK"),
                option("--question", "a question in words", "TEXT"),
                SINCE,
                UNTIL,
                BUDGET,
                CONTEXT_ID,
            ),
            place=60,
            print="printing_context.context",
            examples=(
                ("kgd context src/auth/session.py", "before you edit a file"),
                ('kgd context --task "Renew sessions earlier"', "before you start a task"),
                ('kgd context "how long do sessions last?"', "a question"),
            ),
        ),
        Command(
            "Reading",
            "show why a line of code or a file exists: its commits, and the facts about it",
            (option("paths", "a line, a range as in src/app.py:12-20, or a file", "FILE[:LINE]", nargs="+"), BUDGET),
            name="why",
            place=65,
            print="printing_context.why",
            unless="unknown_paths",
            examples=(
                ("kgd why src/auth/session.py:1", "the commit of the line, its reason, and the facts about it"),
                ("kgd why src/auth/session.py", "the facts about the file, and its recent commits"),
            ),
        ),
    ),
)
