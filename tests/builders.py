"""Builders of test values with defaults, one line per value."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kgd.codec.settings import first_files
from kgd.git.creation import create_standalone
from kgd.git.layout import Layout
from kgd.git.objects import ObjectId, Signature
from kgd.git.staging import Staging
from kgd.model.change import Author, ChangeSet, Edit, Upsert
from kgd.model.node import Json, Relation
from kgd.model.uri import Uri, parse
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.writer import Staged

ANN = Author("Ann", "ann@example.org", "tests")
WS = "ws"


def uri(name: str) -> Uri:
    """`a/b` is concept://ws/a/b; a full URI stays unchanged."""
    return parse(name if ":" in name else f"concept://{WS}/{name}")


def to(name: str, type: str = "relates_to", weight: float = 1.0, **data: Json) -> Relation:
    return Relation(type, uri(name), weight, data)


def upsert(where: str, /, *relations: Relation, data: Mapping[str, Json] | None = None, **fields: object) -> Upsert:
    return Upsert(uri(where), relations=relations, data=data or {}, **fields)  # type: ignore[arg-type]


def change(*edits: Edit, message: str = "", request: str = "", author: Author = ANN) -> ChangeSet:
    return ChangeSet(edits, author, message, request)


def new_layout(directory: Path, workspace: str = WS) -> Layout:
    """A new workspace in a new directory."""
    directory.mkdir(parents=True, exist_ok=True)
    return create_standalone(directory, workspace, first_files(workspace))


def commit_file(ws: Workspace, path: str, text: str) -> None:
    """Commit one file directly with git, without the checks of a change."""

    def job(staging: Staging, tip: ObjectId) -> Staged[object]:
        changed = staging.write({path: text.encode()})
        by = Signature("Bob", "bob@example.org", 1)
        return Staged(None, staging.commit(staging.write_tree(), [tip], by, "elsewhere"), changed, by)

    ws.run(job)
