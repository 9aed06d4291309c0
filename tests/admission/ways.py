"""Every way into a workspace, and its verdict on one change. Nothing is written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgd.codec import paths
from kgd.errors import Forbidden, KgdError
from kgd.exchange.plan import Wanted
from kgd.git.objects import ObjectId, Signature
from kgd.git.staging import Staging
from kgd.hooks.push_check import Update, check_push
from kgd.model.change import ChangeSet, Upsert
from kgd.model.node import FIELDS, Json, Node, Relation
from kgd.model.uri import Uri
from kgd.tools.exchange.imports import reconcile
from kgd.workspace.proposals import proposals, submission
from kgd.workspace.proposals.submission import Submitter
from kgd.workspace.publishing import adoption
from kgd.workspace.publishing.hand_edits import HandEdit, HandEdits
from kgd.workspace.publishing.work_tree import WorkTree
from kgd.workspace.workspace import Workspace
from tests.builders import ANN, change

MEMORY = "memories/2026-11-20-new.md"
Values = Mapping[str, Json]


@dataclass(frozen=True)
class Change:
    """The intended node: the given fields, and the prose."""

    values: Values
    detail: str = ""

    @property
    def uri(self) -> Uri:
        return Uri(str(self.values["uri"]))

    def edit(self, ws: Workspace) -> Upsert:
        """The arguments of `put`."""
        known: dict[str, Any] = {
            name: self.values[name] for name in ("type", "name", "summary", "content", "data") if name in self.values
        }
        known["others"] = {key: value for key, value in self.values.items() if key not in FIELDS}
        relations = tuple(Relation(**relation) for relation in self.values.get("relations", ()))
        return Upsert(
            self.uri,
            tags=tuple(self.values.get("tags", ())),
            relations=relations,
            detail=self.detail or None,
            expect_version=ws.version(ws.path(self.uri)) if ws.node(self.uri) else None,
            **known,
        )

    def files(self, ws: Workspace) -> dict[str, bytes]:
        """The file as a person writes it by hand. The node is JSON, which is YAML, and may be invalid in any way."""
        values, files = dict(self.values), dict[str, bytes]()
        if self.detail:
            values["data"] = {**values.get("data", {}), "file": MEMORY}
            kind = values.get("type", "decision")
            files[MEMORY] = f"---\nid: {self.uri}\ntype: {kind}\n---\n\n{self.detail}\n".encode()
        if "relations" in values:
            values["relations"] = [
                {key: value for key, value in one.items() if key != "others"} | one.get("others", {})
                for one in values["relations"]
            ]
        files[paths.path_of(self.uri, ws.sharded)] = json.dumps(values).encode()
        return files


class Admitted(Forbidden):
    """Raised instead of the commit."""


def _stop(*_: object) -> None:
    raise Admitted("so far, so good")


@dataclass
class Ways:
    """The ways into one workspace. Each returns the refusal of a change, or None."""

    ws: Workspace
    folder: Path
    places: dict[str, str] = field(default_factory=dict)

    def all(self) -> dict[str, Callable[[Change], KgdError | None]]:
        return {
            "put": self.put,
            "submit": self.submit,
            "import": self.import_,
            "push": self.push,
            "proposal": self.proposal,
            "save": self.save,
        }

    def put(self, one: Change) -> KgdError | None:
        return _refusal(lambda: self.ws.submit(change(one.edit(self.ws)), dry_run=True))

    def submit(self, one: Change) -> KgdError | None:
        who = Submitter("ann", write=_stop)
        tip = self.ws.tip
        return _refusal(lambda: submission.submit(self.ws, change(one.edit(self.ws)), who, base=tip))

    def import_(self, one: Change) -> KgdError | None:
        """As an import of a new node. An existing node is put, since an import may keep some of its fields."""
        if self.ws.node(one.uri) is not None:
            return self.put(one)

        def run() -> None:
            edit = one.edit(self.ws)
            node = Node(
                edit.uri,
                edit.type or "",
                edit.name or "",
                edit.summary or "",
                edit.content or "",
                edit.tags,
                edit.data,
                relations=edit.relations,
                others=edit.others,
            )
            found = reconcile(self.ws, [Wanted(node, one.detail, at="x")], replace=True)
            edits = tuple(edit for step in found.steps for edit in step.edits)
            if edits:
                self.ws.submit(ChangeSet(edits, ANN, operation="import"), dry_run=True)
            elif found.troubles:
                raise KgdError(found.troubles[0].reason)

        return _refusal(run)

    def push(self, one: Change) -> KgdError | None:
        return self.push_files(one.files(self.ws))

    def push_files(self, files: Mapping[str, bytes]) -> KgdError | None:
        store, old = self.ws.store, bytes.fromhex(self.ws.tip)
        branch = self.ws.layout.branch
        new = self.commit_files(files)
        return _refusal(lambda: check_push(store, [Update(branch, old, new)], None, self.ws.settings, branch=branch))

    def proposal(self, one: Change) -> KgdError | None:
        return _refusal(lambda: proposals.vet(self.ws, bytes.fromhex(self.ws.tip), self.commit(one)))

    def save(self, one: Change) -> KgdError | None:
        """As a person's files in the work tree, up to their commit."""
        found, refused = self.looked_at(one)
        store = self.ws.store
        tip = bytes.fromhex(self.ws.tip)
        taken = adoption.commit_edits(self.ws, found, ANN, 1)(Staging(store, store.tree_of(tip)), tip).answer
        assert isinstance(taken, adoption.Committed)
        return next(iter([*refused, *(error for _, error in taken.refused)]), None)

    # ---- parts of a change

    def commit(self, one: Change) -> ObjectId:
        """A commit with the files, without a ref."""
        return self.commit_files(one.files(self.ws))

    def commit_files(self, files: Mapping[str, bytes]) -> ObjectId:
        store, tip = self.ws.store, bytes.fromhex(self.ws.tip)
        staging = Staging(store, store.tree_of(tip))
        staging.write(files)
        commit = staging.commit(staging.write_tree(), [tip], Signature("Bob", "bob@example.org", 1), "by hand")
        store.release(store.write(staging.objects))
        return commit

    def looked_at(self, one: Change) -> tuple[list[HandEdit], list[KgdError]]:
        """The accepted files, and the reasons against the others."""
        store, tip = self.ws.store, bytes.fromhex(self.ws.tip)
        tree = store.tree_of(tip)
        shutil.rmtree(self.folder, ignore_errors=True)
        root, parts = self.folder / "tree", self.folder / "parts"
        parts.mkdir(parents=True)
        for file in store.files(tree):
            (root / file.path).parent.mkdir(parents=True, exist_ok=True)
            (root / file.path).write_bytes(store.read(file.id))
        for path, data in one.files(self.ws).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
        edits = HandEdits(store, WorkTree(root, parts), self.ws.id, self.ws.sharded, self.folder / "bases")
        edits.unpublished.set_published(tree)
        found = edits.look(tree, tree, settle=True).edits
        return found, [KgdError(one.reason, at=one.path) for one in edits.invalid_files()]


def _refusal(ask: Callable[[], object]) -> KgdError | None:
    try:
        ask()
    except Admitted:
        return None
    except KgdError as refusal:
        return refusal
    return None
