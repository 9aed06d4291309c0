"""The `import` tool: reads and checks a source completely, then writes it in few commits.

An imported node stores a digest of its content at the time of the import. The digest shows which side has changed since
then: only the source (its version is stored), only the workspace (the node stays unchanged), or both (the node stays
unchanged and is reported).
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.areas.patterns import check_pattern
from kgd.codec import canonical
from kgd.errors import Invalid, KgdError, Limit, NotFound, Stale, Unavailable
from kgd.exchange import IMPORTED, NAMED_FILE, Reading, Trouble, Wanted, digest, formats, noted
from kgd.memories.keywords import keywords
from kgd.model.change import ChangeSet, Edit, Upsert, difference, upsert_of
from kgd.model.node import Node
from kgd.model.uri import collision_key
from kgd.tools import addressing
from kgd.tools.operation import Command, Hints, Operation, option
from kgd.tools.paging import present
from kgd.tools.parameters import WorkspaceParams
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.transaction import MAX_EDITS

TROUBLES_SHOWN = 1_000


class ImportParams(WorkspaceParams):
    source: Annotated[str, Field(min_length=1, description="a file or folder")]
    format: Annotated[str, Field(description="its format, if it is not detected")] = ""
    below: Annotated[str, Field(max_length=500, description="a prefix for the paths of new URIs")] = ""
    replace: Annotated[bool, Field(description="overwrite nodes that changed here")] = False
    dry_run: bool = False


class TroubleAnswer(TypedDict):
    at: str
    reason: str


class Told(TypedDict):
    """The common fields of an answer about an import or export: a line for each failure, up to a limit."""

    troubles: list[TroubleAnswer]
    more_troubles: NotRequired[int]
    dry_run: NotRequired[bool]


class ImportResult(Told):
    """`read` counts the items of the source; `nodes` counts new, changed, unchanged and kept nodes."""

    workspace: str
    source: str
    format: str
    read: dict[str, int]
    nodes: dict[str, int]
    commits: list[str]


def take(session: Session, params: ImportParams) -> ImportResult:
    """Import every part of a source that can be stored; each other part becomes one line of `troubles`."""
    workspace = addressing.choose(session, params.workspace, writing=True)
    path = place(session, params.source)
    if not path.exists():
        raise NotFound("there is no such file or folder", at=str(path)[-80:], next="Check the path.")
    if not path.is_file() and not path.is_dir():
        raise Invalid("this is a pipe or a device", at="source", next="Name a file or a folder.")
    reading = Reading(workspace.id, params.below.strip("/"), workspace.layout.code_tree, check_pattern, keywords)
    session.progress(0, None, f"reading {path.name}")
    try:
        chosen = formats.named(params.format, "format", "read") if params.format else formats.sniffed(path)
        assert chosen.read is not None
        plan = chosen.read(path, reading)
    except OSError as error:
        raise Unavailable(f"this cannot be read: {error.strerror}", at=str(path)[-80:]) from None
    found = reconcile(workspace, plan.wanted, replace=params.replace)
    troubles = [*plan.troubles, *found.troubles]
    if other := formats.passed_by(path, chosen):
        troubles.append(Trouble(f"{other}/", "it was skipped: import it by itself"))
    changes = _Changes(session, workspace, f"import {path.name}" if path.name else "import")
    batches = list(changes.checked(list(_batches(found.steps)), troubles))
    done = Counter(step.what for batch in batches for step in batch)
    answer: ImportResult = {
        "workspace": workspace.id,
        "source": str(path),
        "format": chosen.name,
        "read": dict(plan.counts),
        "nodes": {"new": done["new"], "changed": done["changed"], "unchanged": found.unchanged, "kept": found.kept},
        "commits": [] if params.dry_run else changes.carry_out(batches),
        "troubles": [],
    }
    tell(answer, troubles, dry_run=params.dry_run)
    return answer


def tell(answer: Told, troubles: Sequence[Trouble], *, dry_run: bool) -> None:
    """Complete an answer with its troubles, and with the `dry_run` mark if nothing was written."""
    answer["troubles"] = [{"at": t.at, "reason": t.reason} for t in troubles[:TROUBLES_SHOWN]]
    answer |= present(more_troubles=len(troubles[TROUBLES_SHOWN:]), dry_run=dry_run)


def place(session: Session, text: str) -> Path:
    """The absolute path on this machine for a path in a call.

    Raises:
        Invalid: The path is relative and the caller's folder is unknown.
    """
    path = Path(os.path.expanduser(text))
    if not path.is_absolute():
        if session.cwd is None:
            raise Invalid("give an absolute path", at="source")
        path = session.cwd / path
    return Path(os.path.normpath(path))


def _batches(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Batches of steps, each as large as a commit allows; the edits of one step stay together."""
    batch: list[Step] = []
    count = 0
    for step in steps:
        if batch and count + len(step.edits) > MAX_EDITS:
            yield batch
            batch, count = [], 0
        batch.append(step)
        count += len(step.edits)
    if batch:
        yield batch


class _Changes:
    """The trial and the execution of an import's steps."""

    def __init__(self, session: Session, workspace: Workspace, message: str) -> None:
        self._session, self._workspace, self._message = session, workspace, message
        self._author = session.author(workspace)

    def checked(self, batches: Sequence[list[Step]], troubles: list[Trouble]) -> Iterator[list[Step]]:
        """The batches without the steps that would be refused; each refused step is reported. Writes nothing."""
        total = sum(map(len, batches))
        done = 0
        for batch in batches:
            yield self._sound(batch, troubles)
            done += len(batch)
            self._session.progress(done, total, "checking")

    def _sound(self, batch: list[Step], troubles: list[Trouble]) -> list[Step]:
        """Halve a refused batch until the faulty steps are alone: few faulty steps cost few trials."""
        try:
            self._submit(batch, dry_run=True)
        except KgdError as error:
            if len(batch) == 1:
                troubles.append(Trouble(batch[0].at, f"{error.message}; not taken"))
                return []
            middle = len(batch) // 2
            return self._sound(batch[:middle], troubles) + self._sound(batch[middle:], troubles)
        return batch

    def carry_out(self, batches: Sequence[Sequence[Step]]) -> list[str]:
        """Commit the batches; return the commits. A failure keeps earlier commits; the next import continues there."""
        commits: list[str] = []
        for number, batch in enumerate(batches):
            if not batch:
                continue
            try:
                commit = self._submit(batch)
            except Stale as stale:
                stale.next = "The nodes changed during the import. Import again; finished parts are not repeated."
                raise
            if commit:
                commits.append(commit)
            self._session.progress(number + 1, len(batches), "writing")
        return commits

    def _submit(self, batch: Sequence[Step], *, dry_run: bool = False) -> str | None:
        edits: tuple[Edit, ...] = tuple(edit for step in batch for edit in step.edits)
        changes = ChangeSet(edits, self._author, self._message, operation="import")
        return self._session.submit(self._workspace, changes, dry_run=dry_run).commit


IMPORT = Operation(
    name="import",
    title="Import",
    description="Imports the files of another program.",
    hints=Hints(idempotent=True),
    run=take,
    commits={"import": "imported"},
    commands=(
        Command(
            "Care",
            "import other programs' files; a repeat changes nothing",
            (
                option("source", value="SOURCE"),
                option("--from", "its format, if it is not detected (docs/exchange.md)", "FORMAT", dest="format"),
                option("--below", value="PATH"),
                option("--replace"),
            ),
            place=30,
            examples=(("kgd import notes --dry-run", "preview an import"),),
            ask="import_",
            print="printing_sharing.imported",
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Step:
    """The edits of one wanted node, which belong together. `what` is "new" or "changed"."""

    edits: tuple[Edit, ...]
    at: str
    what: str


@dataclass(slots=True)
class Reconciled:
    steps: list[Step] = field(default_factory=list)
    unchanged: int = 0
    kept: int = 0
    troubles: list[Trouble] = field(default_factory=list)


def reconcile(workspace: Workspace, wanted: Sequence[Wanted], *, replace: bool = False) -> Reconciled:
    """The steps for each wanted node, in order. `replace` prefers the source where the stored node differs."""
    out = Reconciled()
    seen: dict[str, str] = {}
    for one in wanted:
        key = collision_key(one.node.uri)
        if (other := seen.setdefault(key, one.at)) != one.at:
            reason = f"{other} has the same name, or differs only in letter case or normal form; not imported"
            out.troubles.append(Trouble(one.at, reason))
            continue
        try:
            canonical.check_depth(one.node.data)
            canonical.check_depth(one.node.others)
        except Limit as refusal:
            out.troubles.append(Trouble(one.at, f"{refusal.message}; not imported"))
            continue
        _one(workspace, noted(one), out, replace=replace)
    return out


def _one(workspace: Workspace, one: Wanted, out: Reconciled, *, replace: bool) -> None:
    node = one.node
    current = workspace.resolve(node.uri)
    version = workspace.node_version(current)  # read first: the write then detects an edit in between
    stored = workspace.node(current)
    if stored is None or stored.is_bare:
        twin = workspace.graph.twin(node.uri) if stored is None else None
        if twin is not None:
            out.troubles.append(
                Trouble(one.at, f"its name differs from {twin} only by case or normal form; not imported")
            )
            return
        seen = version.count if version and stored else 0  # a deleted node still has a version; the write expects none
        out.steps.append(Step((_whole(one, seen),), one.at, "new"))
        return
    now, then = digest(stored, detail_of(workspace, stored)), one.base or stored.data.get(IMPORTED)
    coming = digest(node, one.detail)
    if coming in (now, then) and not (replace and coming != now):
        out.unchanged += 1
        return
    is_same_source = _key(stored) == _key(node)
    if replace or (is_same_source and now == then):
        out.steps.append(Step(_difference(stored, one, version.count if version else 0), one.at, "changed"))
        return
    out.kept += 1
    why = (
        "it changed here and in the source since the last import"
        if is_same_source
        else f"{stored.uri} exists here and did not come from the source"
    )
    out.troubles.append(Trouble(one.at, f"{why}; the node here was kept (--replace takes the source's)"))


def _key(node: Node) -> tuple[str, str] | None:
    return node.source.key if node.source else None


def detail_of(workspace: Workspace, node: Node) -> str:
    """The prose of the node's memory file; empty if it has none."""
    found = workspace.detail(node)
    return found[1] if found else ""


def _whole(one: Wanted, version: int) -> Upsert:
    """The edit that creates a wanted node, with the prose of its memory file."""
    detail = _prose(one)
    data = {**one.node.data, NAMED_FILE: one.file} if one.detail and one.file else one.node.data
    made = upsert_of(dataclasses.replace(one.node, data=data, aliases=()))
    return dataclasses.replace(made, expect_version=version, detail=detail)


def _difference(stored: Node, one: Wanted, version: int) -> tuple[Edit, ...]:
    """The edits that make the stored node equal to the wanted node.

    kgd's own fields (aliases, file name), and keys that this version does not know, stay unchanged.
    """
    kept = {key: value for key, value in stored.data.items() if key == NAMED_FILE}
    data = {**kept, **one.node.data}
    others = {**stored.others, **one.node.others}
    wanted = dataclasses.replace(one.node, uri=stored.uri, data=data, others=others, aliases=stored.aliases)
    edits = difference(stored, wanted)
    upsert = next((each for each in edits if isinstance(each, Upsert)), Upsert(stored.uri))
    unset = (*upsert.unset, "detail") if not one.detail.strip() and stored.data.get(NAMED_FILE) else upsert.unset
    whole = dataclasses.replace(upsert, unset=unset, expect_version=version, detail=_prose(one))
    return (*(each for each in edits if each is not upsert), whole)


def _prose(one: Wanted) -> str | None:
    return one.detail.strip("\n") if one.detail.strip() else None
