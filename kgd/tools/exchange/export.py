"""The `export` tool: writes nodes as files of another format and never overwrites files written by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, NotRequired

from pydantic import Field

from kgd.errors import Invalid, Limit
from kgd.exchange import formats
from kgd.exchange.formats import Format
from kgd.exchange.view import View
from kgd.graph.traverse import traverse
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.tools import addressing
from kgd.tools.commands import Command, option
from kgd.tools.exchange.exported_files import Placed, put_in_place
from kgd.tools.exchange.imports import Told, place, tell
from kgd.tools.operation import Hints, Operation
from kgd.tools.parameters import Many, Params
from kgd.tools.session import Session

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

TEXT_LIMIT = 8 * 2**20
STANDARD_OUTPUT = "-"


class ExportParams(Params):
    target: Annotated[str, Field(min_length=1, description="a file or folder; - returns the text")]
    format: Annotated[str, Field(min_length=1, description="the format")]
    roots: Annotated[Many[str], Field(description="only these nodes and the nodes within reach")] = Field(
        default_factory=list
    )
    max_cost: Annotated[float | None, Field(ge=0, description="largest cost of a path")] = 1.0
    direction: Annotated[Literal["out", "in", "both"], Field(description="along relations, against them, or both")] = (
        "out"
    )
    max_nodes: Annotated[int | None, Field(ge=1, description="largest number of nodes")] = None
    replace: Annotated[bool, Field(description="overwrite files that kgd did not write")] = False
    dry_run: bool = False
    workspace: str | None = None


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
            raise Invalid(f"{chosen.name} is a folder of files", at="target", next="Name a folder.")
        answer["text"] = _text(written.files[0].data)
    else:
        target = place(session, params.target)
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
        raise Limit("this is more than 8 MiB", at="target", next="Name a file.")
    return data.decode()


EXPORT = Operation(
    name="export",
    title="Export",
    description="Writes nodes as files of another program.",
    Params=ExportParams,
    Result=ExportResult,
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
                option("--max-cost", "largest cost of a path (1); 'none' for no limit", "COST", type=None),
                option("--direction", "along relations, against them, or both (out)"),
                option("--max-nodes"),
                option("--replace", "overwrite files that kgd did not write"),
            ),
            place=40,
            ask="export",
            print="printing_exchange.exported",
        ),
    ),
)
