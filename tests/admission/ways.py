"""Every way into a workspace, and its verdict on one change. Nothing is written."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgd.codec import paths
from kgd.errors import Forbidden, KgdError
from kgd.exchange import Wanted
from kgd.git.objects import ObjectId, Signature
from kgd.git.refs import RefUpdate
from kgd.git.staging import Staging
from kgd.hooks.push_check import Pushed, check_push
from kgd.model.change import ChangeSet, Edit, Upsert
from kgd.model.node import FIELDS, Json, Node, Relation, default_type
from kgd.model.uri import Uri
from kgd.tools.exchange import reconcile
from kgd.workspace.memory_files import read_blob
from kgd.workspace.proposals import deciding, proposals
from kgd.workspace.proposals.deciding import Submitter
from kgd.workspace.publishing import adoption
from kgd.workspace.publishing.hand_edits import HandEdit, HandEdits
from kgd.workspace.publishing.work_tree import WorkTree, is_owned
from kgd.workspace.workspace import Workspace
from tests.admission.kinds import Files, Kind, Together, memory_of, written
from tests.builders import ANN, change

Values = Mapping[str, Json]


@dataclass(frozen=True)
class Change:
    """The intended node: the given fields, and the prose of its memory."""

    values: Values
    detail: str = ""

    @property
    def uri(self) -> Uri:
        return Uri(str(self.values["uri"]))

    @property
    def uris(self) -> tuple[Uri, ...]:
        return (self.uri,)

    def edits(self, ws: Workspace) -> tuple[Edit, ...]:
        return (self.edit(ws),)

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

    def files(self, ws: Workspace) -> Files:
        """The file as a person writes it by hand. It may be invalid in any way."""
        values, files = dict(self.values), dict[str, bytes | None]()
        if self.detail:
            path, head = f"memories/{hashlib.sha1(self.uri.encode()).hexdigest()}.md", f"id: {self.uri}\n"
            for known, data in memory_of(ws, self.uri):
                path, head = known, data.decode().split("---\n", 2)[1]
            if "type: " not in head:
                head += f"type: {values.get('type') or default_type(self.uri)}\n"
            values["data"] = {**values.get("data", {}), "file": path}
            files[path] = f"---\n{head}---\n\n{self.detail}\n".encode()
        if "relations" in values:
            values["relations"] = [
                {key: value for key, value in one.items() if key != "others"} | one.get("others", {})
                for one in values["relations"]
            ]
        files[paths.path_of(self.uri, ws.sharded)] = written(values)
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

    def all(self) -> dict[str, Callable[[Kind], KgdError | None]]:
        return {
            "put": self.put,
            "submit": self.submit,
            "import": self.import_,
            "push": self.push,
            "proposal": self.proposal,
            "save": self.save,
        }

    def put(self, one: Kind) -> KgdError | None:
        return _refusal(lambda: self.ws.submit(change(*one.edits(self.ws)), dry_run=True))

    def submit(self, one: Kind) -> KgdError | None:
        who = Submitter("ann", write=_stop)
        tip = self.ws.tip
        return _refusal(lambda: deciding.submit(self.ws, change(*one.edits(self.ws)), who, base=tip))

    def import_(self, one: Kind) -> KgdError | None:
        """As an import of new nodes. Any other change is put, since an import may keep some fields and removes none."""
        kinds = one.kinds if isinstance(one, Together) else (one,)
        new = [each for each in kinds if isinstance(each, Change) and self.ws.node(each.uri) is None]
        if len(new) < len(kinds):
            return self.put(one)

        def run() -> None:
            wanted = [Wanted(_node(each.edit(self.ws)), each.detail, at=f"{n}") for n, each in enumerate(new)]
            found = reconcile(self.ws, wanted, replace=True)
            if found.troubles:
                raise KgdError(found.troubles[0].reason)
            edits = tuple(edit for step in found.steps for edit in step.edits)
            self.ws.submit(ChangeSet(edits, ANN, operation="import"), dry_run=True)

        return _refusal(run)

    def push(self, one: Kind) -> KgdError | None:
        return self.push_files(one.files(self.ws))

    def push_files(self, files: Files, message: str = "by hand") -> KgdError | None:
        store, old = self.ws.store, bytes.fromhex(self.ws.tip)
        branch = self.ws.layout.branch
        new = self.commit_files(files, message)
        return _refusal(
            lambda: check_push(Pushed(store, None, self.ws.settings, branch), [RefUpdate(branch, old, new)])
        )

    def proposal(self, one: Kind) -> KgdError | None:
        return _refusal(lambda: proposals.vet(self.ws, bytes.fromhex(self.ws.tip), self.commit(one)))

    def save(self, one: Kind) -> KgdError | None:
        """As a person's files in the work tree, up to their commit."""
        found, refused = self.looked_at(one)
        store = self.ws.store
        tip = bytes.fromhex(self.ws.tip)
        taken = adoption.commit_edits(self.ws, found, ANN, 1)(Staging(store, store.tree_of(tip)), tip).answer
        assert isinstance(taken, adoption.Committed)
        return next(iter([*refused, *(error for _, error in taken.refused)]), None)

    # ---- parts of a change

    def commit(self, one: Kind) -> ObjectId:
        """A commit with the files, without a ref."""
        return self.commit_files(one.files(self.ws))

    def commit_files(self, files: Files, message: str = "by hand") -> ObjectId:
        store, tip = self.ws.store, bytes.fromhex(self.ws.tip)
        staging = Staging(store, store.tree_of(tip))
        staging.write(files)
        commit = staging.commit(staging.write_tree(), [tip], Signature("Bob", "bob@example.org", 1), message)
        store.release(store.write(staging.objects))
        return commit

    def looked_at(self, one: Kind) -> tuple[list[HandEdit], list[KgdError]]:
        """The accepted files, and the reasons against the others. A removal needs no admission, only a moment."""
        store, tip = self.ws.store, bytes.fromhex(self.ws.tip)
        tree = store.tree_of(tip)
        shutil.rmtree(self.folder, ignore_errors=True)
        root, parts = self.folder / "tree", self.folder / "parts"
        parts.mkdir(parents=True)
        for file in store.files(tree):
            (root / file.path).parent.mkdir(parents=True, exist_ok=True)
            (root / file.path).write_bytes(store.read(file.id))
        removed = list[HandEdit]()
        for path, data in one.files(self.ws).items():
            if data is None:
                (root / path).unlink()
                removed += [HandEdit(path, None, read_blob(store, tree, path))] if is_owned(path) else []
                continue
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
        edits = HandEdits(store, WorkTree(root, parts), self.ws.id, self.ws.sharded, self.folder / "bases")
        edits.unpublished.set_published(tree)
        found = edits.look(tree, tree, settle=True).edits
        return [*found, *removed], [KgdError(one.reason, at=one.path) for one in edits.invalid_files()]


def _node(edit: Upsert) -> Node:
    """The node of an import; like put, it fails for values that no node can have."""
    return Node(
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


def _refusal(ask: Callable[[], object]) -> KgdError | None:
    try:
        ask()
    except Admitted:
        return None
    except KgdError as refusal:
        return refusal
    return None
