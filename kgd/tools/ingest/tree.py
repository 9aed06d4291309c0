"""Scans of the code tree. Its files can be stored as nodes for teammates who do not have the code."""

from __future__ import annotations

from pathlib import Path
from typing import NotRequired

from typing_extensions import TypedDict

from kgd.errors import Advice, Do, Forbidden, Invalid
from kgd.freshness.freshness import Freshness
from kgd.model.change import ChangeSet
from kgd.model.uri import path_of, scheme_of
from kgd.overlay.overlay import store_changes
from kgd.tools import addressing
from kgd.tools.nodes import overlay_of
from kgd.tools.operation import Command, Hints, Operation, option
from kgd.tools.parameters import Params
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace


class BootstrapParams(Params):
    source: str | None = None
    store: bool = False
    dry_run: bool = False
    workspace: str | None = None


class TreeResult(TypedDict):
    workspace: str
    kind: str
    source: str
    counts: dict[str, int]
    stored: NotRequired[int]
    commits: NotRequired[list[str]]
    dry_run: NotRequired[bool]


def look(session: Session, source: str | None, named: str | None = None, *, dry_run: bool = False) -> TreeResult:
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
    counts = {
        **tree_counts(workspace),
        "added": len(found.added),
        "changed": len(found.changed),
        "removed": len(found.removed),
    }
    answer: TreeResult = {"workspace": workspace.id, "kind": "tree", "source": str(root / below), "counts": counts}
    if dry_run:
        answer["dry_run"] = True
    return answer


def tree_counts(workspace: Workspace) -> dict[str, int]:
    """Counts of the files that the code tree serves and skips; empty without a code tree."""
    overlay = overlay_of(workspace)
    report = overlay.report() if overlay is not None else None
    if report is None:
        return {}
    counted = {
        "files": report.files,
        "directories": report.directories,
        "bytes": report.bytes,
        "text": report.text,
        "binary": report.binary,
        "large": report.large,
        "unreadable": report.unreadable,
        "symlinks": report.symlinks,
        "ignored": report.ignored,
    }
    return counted | {f"skipped_{why.replace(' ', '_')}": count for why, count in sorted(report.skipped.items())}


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
    answer = look(session, params.source, params.workspace, dry_run=params.dry_run)
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
    answer["stored"], answer["commits"] = stored, commits
    return answer


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
