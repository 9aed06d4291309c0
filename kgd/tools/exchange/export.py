"""The `export` tool: writes nodes as files of another format and never overwrites files written by hand.

Each file is written atomically: if it is absent, if its content equals the last export (the folder's `LIST` has the
hashes), or if the format recognises a file that kgd wrote. Every other file stays unchanged and is reported.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, NotRequired

from pydantic import Field

from kgd.errors import MALFORMED, Invalid, InvariantViolation, KgdError, Limit, Unavailable
from kgd.exchange import Output, Trouble, View, formats
from kgd.exchange.formats import Format
from kgd.git.files import replace as replace_file
from kgd.graph.traverse import traverse
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.tools import addressing
from kgd.tools.exchange.imports import Told, place, tell
from kgd.tools.operation import Command, Hints, Operation, option
from kgd.tools.parameters import Many, WorkspaceParams
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace

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
