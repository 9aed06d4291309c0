"""The `put` and `remember` tools: changes that clients make to the graph."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice
from typing import Annotated, Any, Literal, NotRequired, cast

from pydantic import Field
from typing_extensions import TypedDict

from kgd.areas.atlas import ATOM
from kgd.errors import Advice, Do, Invalid, Stale
from kgd.graph.succession import is_succession, predecessors, successor
from kgd.memories.keywords import first_words, hashed_name, memory
from kgd.model.access import Verb
from kgd.model.change import VERIFY, ChangeSet, Edit, Relate, Upsert, subject_from
from kgd.model.fields import CITES
from kgd.model.node import PLAIN, SUPERSEDES, NodeField, Relation, Shape, ranks_behind
from kgd.model.uri import OWNED, Uri, build, scheme_of, scheme_of_type
from kgd.tools import addressing
from kgd.tools.areas import ids
from kgd.tools.differences import Foretold, foretold
from kgd.tools.model_decisions import Resolved, settle
from kgd.tools.nodes import CommitLine, line, sees_all
from kgd.tools.operation import (
    DETAIL,
    URI,
    URIS,
    USUAL,
    VERSION,
    WRITE,
    Argument,
    Command,
    Hints,
    Operation,
    flag,
    many,
    names,
    option,
)
from kgd.tools.paging import present
from kgd.tools.parameters import Many, Message, RequestId, WorkspaceParams
from kgd.tools.session import Session
from kgd.tools.write import write_conflicts
from kgd.tools.write.changes import Changes, addresses, edits, naming_similar
from kgd.tools.write.code_moves import MovedCode
from kgd.tools.write.subjects import cited_code, subject_of, superseded, without_lines
from kgd.workspace.answers import Outcome
from kgd.workspace.history.history import reverted_by
from kgd.workspace.workspace import Workspace

Conflicts = Literal["resolve", "show"]


SETTLING = Do("conflicts"), " shows its sides, ", Do("resolve_conflicts"), " resolves it"
MOST_REOPENED = 50
"""Largest number of conflicts settled by a reverted commit that the answer looks at."""


class PutParams(WorkspaceParams):
    changes: Changes
    message: Annotated[Message, Field(description="the reason, in one line")] = ""
    request_id: Annotated[RequestId, Field(description="repeats apply once")] = ""
    dry_run: bool = False
    conflicts: Conflicts = "resolve"


class Written(TypedDict):
    uri: str
    version: int


class Similar(TypedDict):
    uri: str
    like: list[str]


class PutResult(TypedDict):
    workspace: str
    commit: str | None
    nodes: list[Written]
    created: list[str]
    similar: list[Similar]
    warnings: list[str]
    deleted: NotRequired[list[str]]
    reverted: NotRequired[CommitLine]
    resolved: NotRequired[list[Resolved]]
    moved: NotRequired[list[MovedCode]]
    repeated: NotRequired[bool]
    dry_run: NotRequired[bool]


def put(session: Session, params: PutParams) -> PutResult:
    """Apply all changes as one commit, or none of them."""
    workspace = addressing.choose(session, params.workspace, _first_uris(params.changes), writing=True)
    moved, told = list[MovedCode](), list[str]()
    has_moves = any(one.op == "move" for one in params.changes)
    is_repeated = has_moves and workspace.repeated(session.request(params.request_id)) is not None
    changes = ChangeSet(
        edits(session, workspace, params.changes, moved, told, is_repeated=is_repeated),
        author=session.author(workspace),
        message=params.message or _moves(params.changes, moved),
        request_id=params.request_id,
        operation=VERIFY if params.changes and all(one.op == VERIFY for one in params.changes) else "put",
    )
    outcome, resolved = written(session, workspace, changes, conflicts=params.conflicts, dry_run=params.dry_run)
    answer = answer_of(workspace, outcome, dry_run=params.dry_run)
    answer["warnings"] += dict.fromkeys(told)
    answer["warnings"] += addressing.guesses(session, workspace, addresses(params.changes))
    answer["warnings"] += addressing.respelled(session, workspace, addresses(params.changes), outcome.created)
    if reverts := _reverted(session, workspace, params.changes, outcome):
        if outcome.commit is None and outcome.would is None:
            answer["warnings"] += [nothing_left(session, workspace, commit) for commit in reverts]
        answer["warnings"] += reopened(session, workspace, answer, reverts)
        (last,) = workspace.history.entries(commit=reverts[-1])
        if sees_all(workspace, last, session.sight(workspace.id)):
            answer["reverted"] = line(last)
    answer |= present(resolved=resolved, moved=moved)
    return answer


def _reverted(session: Session, workspace: Workspace, changes: list[Any], outcome: Outcome) -> list[str]:
    """The commits that the changes revert. If they made a commit, its message names them, since `HEAD` has moved."""
    given = [one.commit for one in changes if one.op == "revert"]
    if not given or not outcome.commit:
        return [session.commit(workspace, one) for one in given]
    (made,) = workspace.past.without_nodes([outcome.commit])
    return [one.commit for one in reverted_by(made)][::-1]


def _moves(changes: list[Any], moved: list[MovedCode]) -> str:
    """The subject of a commit that only leads facts to moved code; otherwise empty."""
    if not moved or len(moved) < len(changes):
        return ""
    return subject_from("move", moved[0]["path"], "to", moved[0]["to"], more=len(moved) - 1)


def written(
    session: Session, workspace: Workspace, changes: ChangeSet, *, conflicts: Conflicts = "show", dry_run: bool = False
) -> tuple[Outcome, list[Resolved]]:
    """Submit the changes of a caller, with every check that `put` makes, and its warnings in the outcome.

    `conflicts` is ``resolve`` if models may settle conflicts that the changes encounter.
    """
    told: list[str] = []
    upserts = [edit for edit in changes.edits if isinstance(edit, Upsert)]
    has_atoms = any(scheme_of(edit.uri) == ATOM for edit in upserts)
    has_citations = any(CITES in edit.data for edit in upserts)
    if (has_atoms or has_citations) and not workspace.repeated(session.request(changes.request_id)):
        if has_atoms:
            ids.check_molecules(session, workspace, changes.edits)
        if has_citations:
            given, told = without_lines(session, workspace, changes.edits)
            changes = replace(changes, edits=given)
    unknown = unknown_types(session, workspace, changes.edits)
    told += superseded_before(session, workspace, changes.edits)
    with naming_similar(session, workspace):
        outcome, resolved = _carried_out(session, workspace, changes, conflicts, dry_run)
    warnings = [
        *told,
        *(ids.warnings(session, workspace, changes.edits, outcome.created) if has_atoms else ()),
        *new_types(unknown, changes.edits, outcome),
    ]
    return replace(outcome, warnings=(*outcome.warnings, *warnings)) if warnings else outcome, resolved


def superseded_before(session: Session, workspace: Workspace, edits: Sequence[Edit]) -> list[str]:
    """A warning for each node that the edits supersede, if another node supersedes it already. Hidden nodes get
    none."""
    sees, graph = session.sight(workspace.id), workspace.graph
    found = dict[str, None]()
    for source, type, target in _relations(edits):
        new, old = (target, source) if ranks_behind(type) else (source, target)
        old, new = graph.resolve(old), graph.resolve(new)
        known = successor(graph, old, sees) if sees is None or sees(old) else None
        if known is not None and new != known and old not in predecessors(graph, new):
            found[f"{old} is already superseded by {known}; both relations are kept"] = None
    return list(found)


def _relations(edits: Sequence[Edit]) -> Iterator[tuple[Uri, str, Uri]]:
    """The added relations by which one node supersedes another: source, type, target."""
    for edit in edits:
        if isinstance(edit, Upsert):
            yield from ((edit.uri, one.type, one.target) for one in edit.relations if is_succession(one.type))
        elif isinstance(edit, Relate) and is_succession(edit.relation.type):
            yield edit.source, edit.relation.type, edit.relation.target


def unknown_types(session: Session, workspace: Workspace, edits: Sequence[Edit]) -> dict[str, list[str]]:
    """The types that no node has yet, each with the similar types in use; none for the holder of a token."""
    given = {edit.type for edit in edits if isinstance(edit, Upsert) and edit.type and edit.type not in OWNED}
    known = set(workspace.text_so_far().types()) if given and session.principal is None else given
    return {type: get_close_matches(type, known - OWNED, n=3, cutoff=0.75) for type in sorted(given - known)}


def new_types(unknown: Mapping[str, list[str]], edits: Sequence[Edit], outcome: Outcome) -> Iterator[str]:
    """A warning for the first created node of each new type, unless the write has warned of its type already."""
    upserts = (edit for edit in reversed(edits) if isinstance(edit, Upsert))
    first = {edit.type: edit.uri for edit in upserts if edit.uri in outcome.created}
    for type, like in unknown.items():
        uri = first.get(type)
        if uri and not any(text.startswith(f"{uri} has ") for text in outcome.warnings):
            meant = f"; did you mean {' or '.join(like)}?" if like else ""
            yield f"{uri} is the first node of the type {type[:60]}{meant}"


def _carried_out(
    session: Session, workspace: Workspace, changes: ChangeSet, conflicts: Conflicts, dry_run: bool
) -> tuple[Outcome, list[Resolved]]:
    is_asking = conflicts == "resolve" and not dry_run
    found = (
        write_conflicts.beside(session, workspace, changes.edits) if is_asking and workspace.conflict_count else None
    )
    resolved = list[Resolved]()
    try:
        outcome = session.submit(workspace, changes, dry_run=dry_run)
    except Stale as refusal:
        if conflicts == "show":
            raise
        outcome, resolved = write_conflicts.reconciled(session, workspace, changes, refusal, dry_run=dry_run)
    if found is None or not found.decided:
        return outcome, resolved
    settled = settle(session, workspace, found)
    return write_conflicts.after(outcome, settled), [*resolved, *settled]


def answer_of(
    workspace: Workspace, outcome: Outcome, *, dry_run: bool = False, settled: Collection[str] = ()
) -> PutResult:
    """The answer of every writing tool. Conflicts in `settled` get no warning."""
    if outcome.commit and not outcome.repeated:
        workspace.sent.note_written(outcome.commit, outcome.nodes)
    warnings = list(outcome.warnings)
    nodes = outcome.nodes if workspace.conflict_count else ()
    open_conflicts = {one.uri for uri, _ in nodes for one in workspace.conflicts.find(uri) if one.id not in settled}
    warnings += [Advice(f"{uri} has an open conflict: ", *SETTLING) for uri in open_conflicts]
    answer: PutResult = {
        "workspace": workspace.id,
        "commit": outcome.commit,
        "nodes": [{"uri": uri, "version": version} for uri, version in outcome.nodes],
        "created": list(outcome.created),
        "similar": [{"uri": one.uri, "like": list(one.like)} for one in outcome.similar],
        "warnings": warnings,
    }
    answer |= present(deleted=list(outcome.deleted), repeated=outcome.repeated, dry_run=dry_run)
    return answer


class Rehearsed(PutResult):
    would: NotRequired[Foretold]


def rehearsed(
    session: Session, workspace: Workspace, outcome: Outcome, *, dry_run: bool, settled: Collection[str] = ()
) -> Rehearsed:
    """Like `answer_of`, with the changes that a dry run would make."""
    answer = cast(Rehearsed, answer_of(workspace, outcome, dry_run=dry_run, settled=settled))
    if outcome.would:
        answer["would"] = foretold(outcome.would, session.sight(workspace.id))
    return answer


class RememberParams(WorkspaceParams):
    text: Annotated[str, Field(description="a fact in one sentence, or more")]
    about: Many[str] = Field(default_factory=list)
    cites: Annotated[Many[str], Field(description="path#symbol of the code that it is about")] = Field(
        default_factory=list
    )
    supersedes: Many[str] = Field(default_factory=list)
    tags: Many[str] = Field(default_factory=list)
    type: str = "insight"
    detail: Annotated[str | None, Field(description="Markdown, kept as a file of its own")] = None
    dry_run: bool = False


def remember(session: Session, params: RememberParams) -> PutResult:
    """Store one fact, with a relation to each node or path it is about, and to each node that it supersedes. Repeating
    a fact changes nothing.

    Raises:
        Invalid, NotFound: It names something that does not exist, or supersedes code.
    """
    text = params.text.strip()
    if not text:
        raise Invalid("the text is empty", at="text")
    named = [*params.about, *params.supersedes]
    workspace = addressing.choose(session, params.workspace, named, writing=True)
    subjects = [subject_of(session, workspace, one, at=f"about[{n}]") for n, one in enumerate(params.about)]
    old = [superseded(session, workspace, one, at=f"supersedes[{n}]") for n, one in enumerate(params.supersedes)]
    relations = (*(Relation("about", uri, 0.5) for uri, _ in subjects), *(Relation(SUPERSEDES, uri) for uri in old))
    citations = [cited_code(session, workspace, one, at=f"cites[{n}]") for n, one in enumerate(params.cites)]
    cites = [text for text, _ in citations]
    author = session.author(workspace)
    unknown = unknown_types(session, workspace, [Upsert(Uri(""), type=params.type)])
    while True:
        uri, is_new = uri_of_fact(workspace, params.type, text)
        if is_new:
            edit = memory(uri, params.type, text, tags=params.tags, relations=relations, detail=params.detail)
        else:
            edit = Upsert(uri, tags=tuple(params.tags), relations=relations, detail=params.detail)
        if cites:
            edit = replace(edit, data={**edit.data, CITES: _also_cited(workspace, uri, cites)})
        known = superseded_before(session, workspace, (edit,))
        try:
            outcome = session.submit(
                workspace, ChangeSet((edit,), author, operation="remember"), dry_run=params.dry_run
            )
        except Stale:
            if not is_new:
                raise
        else:
            answer = answer_of(workspace, outcome, dry_run=params.dry_run)
            answer["warnings"] += [warning for _, warning in (*subjects, *citations) if warning]
            answer["warnings"] += [*known, *new_types(unknown, (edit,), outcome)]
            answer["warnings"] += addressing.guesses(session, workspace, named)
            return answer


def _also_cited(workspace: Workspace, uri: Uri, cites: list[str]) -> list[str]:
    """The node's citations, followed by the given citations."""
    node = workspace.node(workspace.graph.resolve(uri))
    known = node.data.get(CITES) if node else None
    return list(dict.fromkeys([*(known if isinstance(known, list) else []), *cites]))


def uri_of_fact(workspace: Workspace, type: str, text: str) -> tuple[Uri, bool]:
    """The URI of a fact, from its first words, and whether it is unused.

    On a name clash with another fact, a hash of the content is appended.
    """
    scheme, name = scheme_of_type(type), first_words(text)
    uri = build(scheme, workspace.id, [name.encode()])
    there = workspace.node(workspace.graph.resolve(uri))
    if there is None or text.split() in (there.content.split(), there.summary.split()):
        return uri, there is None
    uri = build(scheme, workspace.id, [hashed_name(text, text).encode()])
    return uri, workspace.node(workspace.graph.resolve(uri)) is None


def _first_uris(changes: list[Any]) -> list[str]:
    """The nodes that the changes name, for choosing the workspace; targets of relations are ignored."""
    found = (
        next(filter(None, (getattr(change, field, None) for field in ("uri", "source", "name"))), None)
        for change in changes
    )
    return [text for text in found if isinstance(text, str)]


_HELP = {
    "type": "its type",
    "name": "its title",
    "summary": "one line of at most 100 characters",
    "tags": "add a tag; may be repeated",
    "content": "its text; - reads standard input; replacing a text needs --expect-version",
}


def _option(row: NodeField) -> Argument:
    flag, said = f"--{row.name.replace('_', '-')}", _HELP.get(row.name, row.help)
    if row.shape is Shape.NAMES:
        return names(flag, said, row.name.removesuffix("s").upper())
    return option(flag, said, row.name.upper() if row.shape is Shape.LABEL else "TEXT")


PUT = Operation(
    name="put",
    title="Write knowledge",
    description=(
        "Write nodes and relations as one commit, all or nothing. upsert (uri, or type and name) sets the given "
        "fields and adds tags and relations; append (uri, text); delete; relate, unrelate (source, target, type); "
        "tag, untag (uri, tags); move (to); revert (commit); verify (uri still holds). Replacing content needs "
        "expect_version."
    ),
    hints=Hints(destructive=True, idempotent=False),
    run=put,
    commits={"put": "wrote", VERIFY: "verified"},
    page="the editor",
    offered=USUAL,
    place=80,
    scope=Verb.WRITE,
    commands=(
        Command(
            "Writing",
            ("write a node or a set of changes; fields that you leave out stay unchanged"),
            (
                option("uri", "the node; without it, --type and --name make its URI", "URI", nargs="?"),
                option("--changes", "a file of JSON changes, as in mcp.md; - is standard input", "FILE", action=None),
                *map(_option, PLAIN),
                DETAIL,
                many("--relations", "add a relation, TYPE:TARGET or TYPE:TARGET@WEIGHT; may be repeated", "RELATION"),
                many("--unset", "clear a field, or data.KEY; may be repeated", "FIELD"),
                option("--data", "JSON object; merged by key", "JSON"),
                option("--expect-version", "refuse if the same field has changed since version N", "N", type="int"),
                *WRITE,
            ),
            place=10,
            print="printing.put",
            examples=(
                (
                    'kgd put services/auth --summary "Checks tokens" --tags auth',
                    "create a concept, or change its fields",
                ),
                ('kgd put --type gotcha --name "Clock skew" --summary "Tokens may be early"', "any other type"),
            ),
        ),
        Command(
            "Writing",
            "add a paragraph to a node",
            (URI, option("text", "the paragraph; - reads standard input", "TEXT"), *WRITE),
            name="append",
            place=20,
            examples=(
                (
                    'kgd append services/auth "Tokens are checked before the cache."',
                    "add a paragraph after the current content",
                ),
            ),
            print="printing.put",
        ),
        Command(
            "Writing",
            "delete nodes with their outgoing relations; incoming ones become broken links",
            (URIS, VERSION, *WRITE),
            name="rm",
            place=40,
            examples=(("kgd rm services/old --dry-run", "preview a deletion"),),
            print="printing.put",
        ),
        Command(
            "Writing",
            "move a node to another URI; the old one stays as an alias",
            (URI, option("to", "the new URI", "TO"), *WRITE),
            name="mv",
            place=50,
            examples=(
                ("kgd mv services/auth services/sign-in", "links to the old name still work"),
                ("kgd mv src/old.py src/new.py", "after git mv: the facts cite the new file"),
            ),
            print="printing.moved",
        ),
        Command(
            "Writing",
            "relate one node to another",
            (
                option("source", "the node the relation leaves", "SOURCE"),
                option("target", "the node it leads to", "TARGET"),
                option(
                    "--type", "its type: a word such as depends_on (default: related_to)", "TYPE", default="related_to"
                ),
                option(
                    "--weight", "cost from 0 (always together) to 1 (one full step) (default: 1)", "W", type="float"
                ),
                *WRITE,
            ),
            name="link",
            place=60,
            print="printing.put",
            examples=(("kgd link services/auth services/keys --type depends_on --weight 0.5", "0 is close, 1 is far"),),
        ),
        Command(
            "Writing",
            "remove a relation",
            (
                option("source", "the node the relation leaves", "SOURCE"),
                option("target", "the node it leads to", "TARGET"),
                option("--type", "its type", "TYPE", default="related_to"),
                *WRITE,
            ),
            name="unlink",
            place=70,
            examples=(("kgd unlink services/auth services/keys --type depends_on", "the opposite of kgd link"),),
            print="printing.put",
        ),
        Command(
            "Writing",
            "add tags to a node, or remove them",
            (URI, option("tags", "the tags", "TAG", nargs="+"), flag("--remove", "remove the tags"), *WRITE),
            name="tag",
            place=80,
            examples=(
                ("kgd tag services/auth security", "add a tag"),
                ("kgd tag services/auth security --remove", "remove a tag"),
            ),
            print="printing.put",
        ),
    ),
)
REMEMBER = Operation(
    name="remember",
    title="Remember a fact",
    description="Stores one fact about paths or nodes.",
    hints=Hints(),
    run=remember,
    commits={"remember": "wrote"},
    commands=(
        Command(
            "Writing",
            "remember one fact; `kgd recall` finds it",
            (
                option("text", "the fact, in one sentence; - reads standard input", "TEXT"),
                option("--about", "a node, path or PATH#SYMBOL the fact is about; may be repeated", "URI"),
                option(
                    "--cites",
                    "code the fact depends on; if it changes, the fact is stale; PATH:LINE cites the symbol around the "
                    "line; may be repeated",
                    "PATH#SYMBOL",
                ),
                option("--supersedes", "a node that the fact replaces; may be repeated", "URI"),
                names("--tags", "a tag; may be repeated (default: keywords of the text)", "TAG"),
                option("--type", "its type: decision, pattern, gotcha, ...", "TYPE"),
                DETAIL,
            ),
            place=100,
            print="printing.put",
            examples=(
                (
                    'kgd remember "Sessions last 15 minutes." --about src/auth',
                    "every agent that asks about src/auth gets it",
                ),
                (
                    'kgd remember "check() has no side effects." --cites src/auth/session.py#check',
                    "stale once check changes",
                ),
                (
                    'kgd remember --type decision "Sessions are in Postgres." --supersedes decision:sessions-in-redis',
                    "the old decision stays, marked and ranked lower",
                ),
            ),
        ),
    ),
)


def nothing_left(session: Session, workspace: Workspace, commit: str) -> str:
    """The warning about a revert of `commit` that changed nothing: names the commit that has reverted it, if that is
    among the newest hundred. The holder of a token learns no id."""
    newest = workspace.history.newest() if session.principal is None else ()
    by = next((one for one in newest if commit in (it.commit for it in reverted_by(one))), None)
    if by is None:
        return f"nothing that {commit[:10]} changed is left to revert"
    return Advice(f"{by.commit[:10]} has reverted it already; ", Do("undo", commit=by.commit[:10]), " restores it")


def reopened(session: Session, workspace: Workspace, answer: PutResult, commits: Iterable[str]) -> list[str]:
    """Warnings about conflicts that are open again, or would be, for nodes that the revert leaves unchanged."""
    sees, is_rehearsal = session.sight(workspace.id), answer.get("dry_run")
    known = () if is_rehearsal else [one["uri"] for one in answer["nodes"]]
    settled = (one.uri for commit in commits for one in islice(workspace.history.resolved(commit), MOST_REOPENED))
    return [
        Advice(f"{uri} {'would have' if is_rehearsal else 'has'} an open conflict: ", *SETTLING)
        for uri in dict.fromkeys(settled)
        if uri not in known and (sees is None or sees(uri)) and (is_rehearsal or workspace.conflicts.find(uri, limit=1))
    ]
