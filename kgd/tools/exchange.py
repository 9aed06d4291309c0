"""The `import` and `export` tools: files of other programs.

An import reconciles a source with the stored nodes. An export never overwrites files written by hand. It writes
a file, atomically, if it is absent, if its content equals the last export (the folder's `LIST` has the hashes), or if
the format recognises a file that kgd wrote. Every other file stays unchanged and is reported.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.areas.patterns import check_pattern
from kgd.codec import canonical
from kgd.errors import MALFORMED, Invalid, InvariantViolation, KgdError, Limit, NotFound, Stale, Unavailable
from kgd.exchange import IMPORTED, NAMED_FILE, Output, Reading, Trouble, View, Wanted, digest, formats, noted
from kgd.exchange.formats import Format
from kgd.git.files import replace as replace_file
from kgd.graph.traverse import traverse
from kgd.memories.keywords import keywords
from kgd.model.change import ChangeSet, Edit, Upsert, difference, upsert_of
from kgd.model.node import Node
from kgd.model.uri import Uri, collision_key
from kgd.tools import addressing
from kgd.tools.operation import Command, Hints, Operation, option
from kgd.tools.paging import present
from kgd.tools.parameters import Many, WorkspaceParams
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


TEXT_LIMIT = 8 * 2**20
STANDARD_OUTPUT = "-"


class ExportParams(WorkspaceParams):
    target: Annotated[str, Field(min_length=1, description="a file or folder; - returns the text")]
    format: Annotated[str, Field(min_length=1, description="the format")]
    roots: Annotated[Many[str], Field(description="only these nodes and the nodes within reach")] = Field(
        default_factory=list
    )
    max_cost: Annotated[float | None, Field(ge=0, description="largest cost of a path")] = 1.0
    direction: Annotated[Literal["out", "in", "both"], Field(description="along relations, against them, or both")] = (
        "out"
    )
    max_nodes: Annotated[int | None, Field(ge=1, description="maximum number of nodes")] = None
    replace: Annotated[bool, Field(description="overwrite files that kgd did not write")] = False
    dry_run: bool = False


class ExportResult(Told):
    """`files` counts new, changed, unchanged and left files. `cut`: nodes that a limit left out."""

    workspace: str
    target: str
    format: str
    wrote: dict[str, int]
    files: dict[str, int]
    cut: int
    text: NotRequired[str]


def give(session: Session, params: ExportParams) -> ExportResult:
    """Write the selected nodes as files of the format: the nodes that a walk reaches, or all."""
    chosen = formats.named(params.format, "format", "write")
    assert chosen.write is not None
    workspace = addressing.choose(session, params.workspace, params.roots)
    view = _view(session, workspace, params, chosen)
    written = chosen.write(view)
    troubles = list(written.troubles)
    answer: ExportResult = {
        "workspace": workspace.id,
        "target": params.target,
        "format": chosen.name,
        "wrote": dict(written.counts),
        "files": {},
        "cut": view.cut,
        "troubles": [],
    }
    if params.target == STANDARD_OUTPUT:
        if chosen.shape != "file":
            raise Invalid(
                f"an export in the format {chosen.name} is a folder of files", at="target", next="Name a folder."
            )
        answer["text"] = _text(written.files[0].data)
    else:
        target = place(session, params.target)
        if chosen.shape != "file" and target.exists() and not target.is_dir():
            raise Invalid(
                f"the format {chosen.name} exports a folder of files, but the target is a file",
                at="target",
                next="Name a folder.",
            )
        answer["target"] = str(target)
        placed: Placed = put_in_place(target, chosen, written.files, replace=params.replace, dry_run=params.dry_run)
        answer["files"] = placed.counts()
        troubles += placed.troubles
    tell(answer, troubles, dry_run=params.dry_run)
    return answer


def _view(session: Session, workspace: Workspace, params: ExportParams, chosen: Format) -> View:
    def detail(node: Node) -> str | None:
        found = workspace.detail(node)
        return found[1] if found else None

    def stamps(uri: Uri) -> tuple[int, int]:
        version = workspace.node_version(uri)
        return (version.created_at, version.updated_at) if version else (0, 0)

    most = min(params.max_nodes or chosen.most, chosen.most)
    if params.roots:
        starts = [addressing.resolve(session, workspace, text, at=f"roots[{n}]") for n, text in enumerate(params.roots)]
        walk = traverse(
            workspace.sources(), starts, max_cost=params.max_cost, max_nodes=most, direction=params.direction
        )
        uris = [one.uri for one in walk.nodes]
        cut = sum(one.count for one in walk.cut if one.limit == "max_nodes")
    else:
        every = sorted(workspace.graph.uris())
        uris, cut = every[:most], max(0, len(every) - most)
    return View(workspace, uris, detail, stamps, cut)


def _text(data: bytes) -> str:
    if len(data) > TEXT_LIMIT:
        raise Limit(
            "the export is larger than 8 MiB, the limit of an answer", at="target", next="Name a file to write."
        )
    return data.decode()


EXPORT = Operation(
    name="export",
    title="Export",
    description="Writes nodes as files of another program.",
    hints=Hints(idempotent=True),
    run=give,
    commands=(
        Command(
            "Care",
            ("export nodes as files of another program; never overwrites files written by hand"),
            (
                option("target", "a file or folder; - is standard output", "TARGET"),
                option("--to", "its format (docs/exchange.md)", "FORMAT", dest="format", required=True),
                option(
                    "--root",
                    "only this node and the nodes a walk from it reaches; may be repeated",
                    "URI",
                    dest="roots",
                ),
                option("--max-cost", "largest cost of a path; 'none' for no limit", "COST", type=None),
                option("--direction", "along relations, against them, or both"),
                option("--max-nodes"),
                option("--replace", "overwrite files that kgd did not write"),
            ),
            place=40,
            examples=(("kgd export notes --to vault", "Markdown files, for example for Obsidian"),),
            print="printing_sharing.exported",
        ),
    ),
)


LIST = ".kgd-export.json"
BEGIN, END = "<!-- kgd export begin -->", "<!-- kgd export end -->"
BIGGEST = 64 * 2**20


@dataclass(slots=True)
class Placed:
    became: Counter[str] = field(default_factory=Counter)
    troubles: list[Trouble] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        return {name: self.became[name] for name in ("new", "changed", "unchanged", "left")}


def put_in_place(
    target: Path, chosen: Format, files: Sequence[Output], *, replace: bool = False, dry_run: bool = False
) -> Placed:
    """Write the files below the target, or the one file at the target.

    Raises:
        InvariantViolation: The target of a single file was not written by kgd.
        Unavailable: Writing failed; files written before the failure stay.
    """
    placed = Placed()
    try:
        if chosen.shape == "file":
            _one_file(target, chosen, files[0].data, placed, replace=replace, dry_run=dry_run)
        else:
            _folder(target, files, placed, replace=replace, dry_run=dry_run)
    except OSError as error:
        raise Unavailable(f"writing failed: {error.strerror}", at=str(error.filename or target)[-80:]) from None
    return placed


def _one_file(target: Path, chosen: Format, data: bytes, placed: Placed, *, replace: bool, dry_run: bool) -> None:
    old = _bytes(target)
    if old == data:
        placed.became["unchanged"] += 1
        return
    if old and not replace and not chosen.own(old):
        raise InvariantViolation(
            "the file exists, and kgd did not write it",
            at=str(target)[-80:],
            next="Name another file, or use --replace.",
        )
    _write(target, data, dry_run=dry_run)
    placed.became["new" if old is None else "changed"] += 1


def _folder(target: Path, files: Iterable[Output], placed: Placed, *, replace: bool, dry_run: bool) -> None:
    known = _known(target)
    now = dict(known)
    for file in files:
        try:
            path = target / file.path
            _refuse_links(target, path)
            old = _bytes(path)
        except KgdError as error:
            placed.troubles.append(Trouble(file.path, error.message))
            placed.became["left"] += 1
            continue
        data = _within(old, file.data) if file.block else file.data
        if data is None:
            placed.troubles.append(Trouble(file.path, "its kgd marker lines are not a pair; left unchanged"))
            placed.became["left"] += 1
        elif old == data:
            placed.became["unchanged"] += 1
        elif old is None or file.block or replace or known.get(file.path) == _hash(old):
            _write(path, data, dry_run=dry_run)
            placed.became["new" if old is None else "changed"] += 1
        else:
            placed.troubles.append(
                Trouble(file.path, "it differs, and kgd did not write it: left unchanged (--replace)")
            )
            placed.became["left"] += 1
            continue
        if not file.block and data is not None and (old != data or file.path in known):
            now[file.path] = _hash(data)
    if now != known and not dry_run:
        text = json.dumps({"written_by": "kgd export", "files": now}, indent=1, sort_keys=True, ensure_ascii=False)
        _write(target / LIST, text.encode() + b"\n", dry_run=False)


def _within(old: bytes | None, block: bytes) -> bytes | None:
    """The file with the block between its marker lines; None unless there is exactly one pair of markers."""
    marked = f"{BEGIN}\n".encode() + block.strip(b"\n") + f"\n{END}\n".encode()
    if old is None:
        return marked
    begin, end = old.find(BEGIN.encode()), old.find(END.encode())
    if begin < 0 and end < 0:
        return old + (b"" if not old or old.endswith(b"\n") else b"\n") + (b"\n" if old else b"") + marked
    if begin < 0 or end < begin or old.count(BEGIN.encode()) > 1 or old.count(END.encode()) > 1:
        return None
    rest = old[end + len(END.encode()) :]
    return old[:begin] + marked.removesuffix(b"\n") + rest


def _refuse_links(target: Path, path: Path) -> None:
    """Refuse a path out of the folder, into `.git`, or through a symbolic link, which would lead the file elsewhere."""
    parts = path.relative_to(target).parts
    if ".." in parts or not parts or any(part.lower() == ".git" for part in parts):
        raise InvariantViolation("no file can be written to this path; the file was left out", at=str(path)[-80:])
    for folder in [path, *path.parents]:
        if folder == target:
            break
        if folder.is_symlink():
            raise InvariantViolation("the path has a symbolic link; left unchanged", at=str(folder)[-80:])


def _bytes(path: Path) -> bytes | None:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise InvariantViolation("the target is not a file", at=str(path)[-80:], next="Name another path.")
        if found.st_size > BIGGEST:
            raise InvariantViolation("the existing file is larger than 64 MiB", at=str(path)[-80:])
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _known(target: Path) -> dict[str, str]:
    """Path to hash of the files that kgd wrote there; empty if the list cannot be read, so that nothing is replaced."""
    try:
        found = json.loads((_bytes(target / LIST) or b"{}").decode())
        return {str(path): str(hash) for path, hash in found.get("files", {}).items()}
    except MALFORMED:
        return {}


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write(path: Path, data: bytes, *, dry_run: bool) -> None:
    if dry_run:
        return
    os.makedirs(path.parent, exist_ok=True)
    replace_file(path, data, flush=False)
