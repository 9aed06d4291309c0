"""The `ingest` tool: turns documents and conversations into nodes, and scans the code tree. A repeat changes only nodes
whose source changed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.daemon.ingestion import AUTO, Report, Request, TakingIn, located
from kgd.daemon.jobs import Job
from kgd.errors import Advice, Do, Forbidden, Invalid
from kgd.freshness.freshness import Freshness
from kgd.ingest.kinds import KINDS
from kgd.model.access import Verb
from kgd.model.change import ChangeSet, Edit
from kgd.model.uri import from_path, is_owned, path_of, scheme_of
from kgd.overlay.overlay import store_changes
from kgd.tools import addressing, compress
from kgd.tools.compress import SummaryTask
from kgd.tools.nodes import overlay_of
from kgd.tools.operation import USUAL, Command, Hints, Operation, option
from kgd.tools.paging import present
from kgd.tools.parameters import WorkspaceParams
from kgd.tools.session import Session
from kgd.tools.suggestions import extraction
from kgd.tools.suggestions.extraction import Task
from kgd.tools.workspaces.status import job_answer, tree_counts
from kgd.workspace.workspace import Workspace

TREE = "tree"
COMPRESSION = "compression"
WAIT_SECONDS = 20.0
"""Seconds that a call waits for its job before it returns the job's id."""
NODES_SHOWN = 100


class IngestParams(WorkspaceParams):
    source: Annotated[str | None, Field(description="a path here; none: the code tree")] = None
    text: Annotated[str | None, Field(description="instead of source")] = None
    kind: Annotated[str, Field(description=f"auto, tree, {', '.join(KINDS)}, entities, compression")] = AUTO
    uri: Annotated[str | None, Field(description="its node (document://, thread://) or source URL")] = None
    dry_run: bool = False


class IngestResult(TypedDict):
    """With `job`, `state` is the state of the job: running, done or failed. Without `job`, the work is done."""

    workspace: str
    kind: str
    source: str
    counts: dict[str, int]
    nodes: NotRequired[list[str]]
    trouble: NotRequired[list[str]]
    more_trouble: NotRequired[int]
    job: NotRequired[str]
    state: NotRequired[str]
    done: NotRequired[int]
    total: NotRequired[int]
    failure: NotRequired[str]
    next: NotRequired[str]
    dry_run: NotRequired[bool]
    proposal: NotRequired[str]
    task: NotRequired[Task | SummaryTask]


def ingest(session: Session, params: IngestParams) -> IngestResult:
    """Ingest a text at once, or a file or folder as a job; without either, scan the code tree."""
    if params.kind == extraction.KIND:
        return _entities(session, params)
    if params.kind == COMPRESSION:
        return _compression(session, params)
    if params.kind not in (AUTO, TREE, *KINDS):
        known = ", ".join((AUTO, TREE, *KINDS, extraction.KIND, COMPRESSION))
        raise Invalid(f"there is no kind '{params.kind[:40]}'", at="kind", next=f"Known: {known}.")
    if params.text is not None:
        return _text(session, params)
    if params.kind == TREE or params.source is None:
        if params.uri is not None:
            raise Invalid("the code tree has fixed URIs", at="uri", next="Leave uri out.")
        return _of_tree(scan(session, params.source, params.workspace, dry_run=params.dry_run))
    if session.principal is not None:
        raise Forbidden("only the machine with the files can read them", at="source", next="Send their text.")
    if "://" in params.source:
        raise Invalid(
            "kgd fetches nothing from the network",
            at="source",
            next="Save the page, then ingest its file or its text, with this URL as `uri`.",
        )
    path = located(params.source, session.cwd)
    workspace = addressing.choose(session, params.workspace, writing=True)
    if session.by_agent:
        _refuse_private(session, workspace, path)
    is_stored = params.kind in KINDS and KINDS[params.kind].from_tree  # even if it is in the code tree
    if (inside := _in_tree(workspace, path)) is not None and not is_stored:
        return _served(session, workspace, path, inside, params)
    request = Request(str(path), "", params.kind, _uri(session, workspace, params.uri))
    if params.dry_run:
        report = Report()
        limit = session.daemon.registry.current().settings.document_mb << 20
        TakingIn(workspace, request, None, report, session.progress, limit=limit).run()
        _refuse_single(report.total, report.counts, report.trouble, path)
        return _report(workspace, request, report, dry_run=True)
    jobs = session.daemon.jobs(workspace)
    job = jobs.ask(request, session.author(workspace))
    job = jobs.wait(job.id, WAIT_SECONDS, lambda one: session.progress(one.done, one.total, path.name))
    if job.is_over:
        _refuse_single(job.total, job.counts, job.trouble, path)
    return _job(workspace, job)


def _refuse_private(session: Session, workspace: Workspace, path: Path) -> None:
    """Refuse a file that an agent may not ingest by itself: the team could then read the file, and some text may have
    tricked the agent into ingesting it.

    Raises:
        Forbidden: The file is hidden, belongs to kgd, or is ignored by the code repository that contains it.
    """
    by_hand = f"A person can ingest it with `kgd ingest {path.name[:60]}` in its folder."
    root = workspace.layout.code_tree
    homes = [Path(os.path.realpath(one)) for one in (root, session.cwd) if one is not None]
    below = next((path.relative_to(home) for home in homes if path.is_relative_to(home)), path)
    if any(part.startswith(".") for part in below.parts):
        raise Forbidden("agents may not ingest hidden files and folders", at="source", next=by_hand)
    home = session.daemon.home
    if any(path.is_relative_to(os.path.realpath(own)) for own in (home.config, home.state, home.logs)):
        raise Forbidden("agents may not ingest kgd's own settings, state and logs", at="source", next=by_hand)
    if root is not None and path.is_relative_to(homes[0]) and _in_tree(workspace, path) is None:
        raise Forbidden("the code repository ignores this file", at="source", next=by_hand)


def _refuse_single(total: int | None, counts: Mapping[str, int], trouble: Sequence[str], path: Path) -> None:
    """Raise an error if a single requested file cannot be ingested: a line in the report could be overlooked.

    Raises:
        Invalid: The reason.
    """
    if total == 1 and not path.is_dir() and counts.get("unread") == 1 and trouble:
        raise Invalid(trouble[-1].removeprefix(f"{path.name}: "), at=path.name[-80:])


def _entities(session: Session, params: IngestParams) -> IngestResult:
    if params.uri is None or params.source is not None or params.text is not None:
        raise Invalid(
            "entities are extracted from stored nodes only",
            at="uri",
            next="Ingest the text first; then give only `uri`, with its document, thread or note.",
        )
    workspace = addressing.choose(session, params.workspace, [params.uri], writing=True)
    uri = addressing.resolve(session, workspace, params.uri, at="uri")
    found: Any = extraction.extract(session, workspace, uri, dry_run=params.dry_run)
    return found  # type: ignore[no-any-return]


def _compression(session: Session, params: IngestParams) -> IngestResult:
    if params.source is not None:
        raise Invalid("only stored nodes are compressed", at="source", next="Leave it out; `uri` selects a subtree.")
    workspace = addressing.choose(session, params.workspace, [params.uri] if params.uri else [], writing=True)
    below = compress.place(session, workspace, params.uri or "")
    found = compress.proposed(
        session, workspace, below=below, dry_run=params.dry_run, answer=params.text, by_agent=True
    )
    answer: IngestResult = {
        "workspace": workspace.id,
        "kind": COMPRESSION,
        "source": below,
        "counts": found["counts"],
        "nodes": [one["nodes"][0] for one in found["changes"]],
        "next": found["next"],
    }
    kept: Any = {key: found[key] for key in ("proposal", "trouble", "task", "dry_run") if key in found}
    return {**answer, **kept}


def _text(session: Session, params: IngestParams) -> IngestResult:
    if params.source is not None:
        raise Invalid("give source or text, not both", at="source")
    if params.kind == TREE:
        raise Invalid("a text is not a code tree", at="kind", next="Leave kind out.")
    workspace = addressing.choose(session, params.workspace, [params.uri] if params.uri else [], writing=True)
    author = session.author(workspace)

    def submit(edits: tuple[Edit, ...], message: str) -> None:
        session.submit(workspace, ChangeSet(edits, author, message, operation="ingest"))

    request = Request("", params.text or "", params.kind, _uri(session, workspace, params.uri))
    report = Report()
    sees = session.sight(workspace.id)
    TakingIn(
        workspace,
        request,
        None if params.dry_run else submit,
        report,
        session.progress,
        allow=lambda uri: session.allow(workspace, Verb.WRITE, [uri]),
    ).run_text(sees or (lambda uri: True))
    return _report(workspace, request, report, dry_run=params.dry_run)


def _uri(session: Session, workspace: Workspace, text: str | None) -> str:
    """The target as a canonical URI of this workspace, or the source URL unchanged; empty if none is given."""
    if not text:
        return ""
    uri = addressing.resolve(session, workspace, text, at="uri")
    owner = uri.split("/")[2] if is_owned(uri) else workspace.id
    if owner != workspace.id:
        raise Invalid("that node belongs to another workspace", at="uri", next=f"Use a URI of {workspace.id}.")
    return uri


def _in_tree(workspace: Workspace, path: Path) -> str | None:
    """The path of a file or folder that the code tree serves; None for any other file or folder, such as an ignored
    file."""
    root, overlay = workspace.layout.code_tree, overlay_of(workspace)
    if root is None or overlay is None:
        return None
    inside = os.path.relpath(path, os.path.realpath(root))
    if inside == "..":
        return None
    if inside.startswith(f"..{os.sep}"):
        return None
    inside = "" if inside == "." else inside
    uri = from_path("dir" if path.is_dir() else "file", workspace.id, inside)
    return inside if overlay.exists(uri) else None


def _served(session: Session, workspace: Workspace, path: Path, inside: str, params: IngestParams) -> IngestResult:
    """Scan the code tree instead of storing one of its files or folders."""
    if path.is_dir():
        answer = _of_tree(scan(session, str(path), workspace.id, dry_run=params.dry_run))
    else:
        overlay = overlay_of(workspace)
        assert overlay is not None
        answer = {
            "workspace": workspace.id,
            "kind": TREE,
            "source": str(path),
            "counts": {"changed": len(overlay.rescan().changed)},
            "nodes": [from_path("file", workspace.id, inside)],
        }
    answer["next"] = "It is part of the code tree, which is served and searched from disk: nothing is stored."
    return answer


def _of_tree(found: TreeResult) -> IngestResult:
    return {**found}  # type: ignore[typeddict-item]


def _report(workspace: Workspace, request: Request, report: Report, *, dry_run: bool) -> IngestResult:
    answer: IngestResult = {
        "workspace": workspace.id,
        "kind": request.kind,
        "source": request.source,
        "counts": {name: count for name, count in sorted(report.counts.items()) if count},
        "nodes": [str(uri) for uri in report.uris[:NODES_SHOWN]],
        "trouble": report.trouble,
    }
    answer |= present(more_trouble=report.more_trouble, dry_run=dry_run)
    return answer


def _job(workspace: Workspace, job: Job) -> IngestResult:
    found = {key: value for key, value in job_answer(job).items() if key not in ("id", "began", "ended")}
    answer: Any = {"workspace": workspace.id, "job": job.id, **found}
    if not job.is_over:
        answer["next"] = Advice(
            "It continues in the background: ",
            Do("status"),
            f", or kgd://{workspace.id}/jobs/{job.id}, shows its progress.",
        )
    result: IngestResult = answer
    return result


INGEST = Operation(
    name="ingest",
    title="Ingest documents and conversations",
    description=(
        "Ingest documents (Markdown, HTML, PDF, Office) or conversations from a file, folder or text; search finds "
        "them. Repeating it stores only what changed. kind entities: your host's model proposes nodes for names in "
        "`uri`. kind compression: proposes merging duplicates and dropping old nodes."
    ),
    hints=Hints(idempotent=True, open_world=True),
    run=ingest,
    commits={"ingest": "ingested", "extract": "wrote", "compress": "wrote"},
    offered=USUAL,
    place=110,
    scope=Verb.WRITE,
    commands=(
        Command(
            "Care",
            "ingest documents and conversations; a repeat updates only changed parts",
            (
                option(
                    "source",
                    "a file or folder, or - for a text on standard input; without it, the code tree is read again",
                    "SOURCE",
                    nargs="?",
                ),
                option("--kind", "the kind of its texts, such as document or conversation (docs/ingest.md)", "KIND"),
                option("--uri", "the URI of its node, or the URL of its source", "URI"),
            ),
            place=20,
            examples=(
                ("kgd ingest docs/handbook.pdf", "a document, in chunks that search finds"),
                ("kgd ingest chats --kind conversation", "a folder of conversations"),
            ),
            own="local.ingest",
        ),
    ),
)


class BootstrapParams(WorkspaceParams):
    source: str | None = None
    store: bool = False
    dry_run: bool = False


class TreeResult(TypedDict):
    workspace: str
    kind: str
    source: str
    counts: dict[str, int]
    stored: NotRequired[int]
    commits: NotRequired[list[str]]
    dry_run: NotRequired[bool]


def scan(session: Session, source: str | None, named: str | None = None, *, dry_run: bool = False) -> TreeResult:
    """Scan the code tree. Nothing is stored, because facts about files are read from the tree itself.

    Raises:
        Forbidden: The caller is on another machine.
        Invalid: There is no code tree, or `source` is not one of its directories.
    """
    if session.principal is not None:
        raise Forbidden(
            "only the machine with the code tree can scan it",
            next=Advice("Record your knowledge with ", Do("put"), "."),
        )
    workspace = addressing.choose(session, named, [source] if source else [])
    overlay, root = overlay_of(workspace), workspace.layout.code_tree
    if overlay is None or root is None:
        raise Invalid("this workspace has no code tree", at="source", next="Run `kgd up` in a code repository.")
    below = _inside(session, workspace, root, source)
    found = overlay.scan(lambda done, total: session.progress(done, total, "reading"))
    moved = (*found.added, *found.changed, *found.removed)
    Freshness.of(workspace).files_changed(path_of(uri) for uri in moved if scheme_of(uri) == "file")
    changed = {"added": len(found.added), "changed": len(found.changed), "removed": len(found.removed)}
    answer: TreeResult = {
        "workspace": workspace.id,
        "kind": TREE,
        "source": str(root / below),
        "counts": tree_counts(workspace) | changed,
    }
    answer |= present(dry_run=dry_run)
    return answer


def _inside(session: Session, workspace: Workspace, root: Path, source: str | None) -> str:
    """The directory that `source` names, as a path relative to the root of the code tree; "" for the root."""
    if source is None:
        return ""
    uri = addressing.resolve(
        session,
        workspace,
        source if "://" in source else f"./{source.lstrip('/')}" if not Path(source).is_absolute() else source,
        at="source",
    )
    if scheme_of(uri) != "dir" or not (root / path_of(uri)).is_dir():
        raise Invalid(
            "this is not a directory of the code tree",
            at="source",
            next="Name a directory of the code tree, or none for all of it; each file is served as a node already.",
        )
    return path_of(uri)


def bootstrap(session: Session, params: BootstrapParams) -> TreeResult:
    answer = scan(session, params.source, params.workspace, dry_run=params.dry_run)
    if not params.store or params.dry_run:
        return answer
    workspace = addressing.choose(session, params.workspace, [params.source] if params.source else [], writing=True)
    overlay = overlay_of(workspace)
    assert overlay is not None
    stored, commits, author = 0, [], session.author(workspace)
    total = sum(1 for _ in overlay.uris())
    for edits in store_changes(overlay):
        changes = ChangeSet(edits, author, "bootstrap: store the code tree", operation="bootstrap")
        outcome = session.submit(workspace, changes)
        stored += len(edits)
        if outcome.commit:
            commits.append(outcome.commit)
        session.progress(stored, total, "storing")
    return {**answer, "stored": stored, "commits": commits}


BOOTSTRAP = Operation(
    name="bootstrap",
    title="Walk the code tree",
    description="Counts the files of the code tree; with `store`, also writes them as nodes.",
    hints=Hints(idempotent=True),
    run=bootstrap,
    commits={"bootstrap": "wrote"},
    commands=(
        Command(
            "Care",
            "read the code tree now; nothing is stored",
            (option("--store", "store the nodes, for a tree that your colleagues do not have"),),
            place=10,
            print="printing_running.ingested",
        ),
    ),
)
