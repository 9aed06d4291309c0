"""This file is where the detail behind a memory is written or taken away on a draft."""

from __future__ import annotations

from dataclasses import replace

from kgd.codec import memories
from kgd.errors import Invalid, Stale
from kgd.model.change import Upsert
from kgd.model.node import FILE, Node
from kgd.workspace import memory_files
from kgd.workspace.draft import Draft

DETAIL = "detail"


def with_detail(draft: Draft, old: Node | None, node: Node, edit: Upsert) -> tuple[Node, bool]:
    """The node with the file of its detail as the edit wants it, and whether that is other than it was.

    Raises:
        Invalid: Its type has none, or the edit both writes it and clears it.
        Stale: There is a detail, and the edit does not expect the version that was read, or that was another one.
    """
    if edit.detail is None or (old is None and not edit.detail.strip()):
        return node, False
    if DETAIL in edit.unset:
        raise Invalid("detail is both given and unset", at=DETAIL)
    memory_files.refuse_detail(node)
    if not edit.detail.strip():
        return replace(node, data={key: value for key, value in node.data.items() if key != FILE}), True
    found = memory_files.detail_of(old, draft.read_file) if old else None
    if found is None:
        path = memory_files.file_of(node) or ""  # an import knows what the file was called
        if not path or draft.read_file(path) is not None:
            path = memory_files.new_path(node, draft.now, lambda path: draft.read_file(path) is not None)
        draft.files[path] = memory_files.written(node, None, edit.detail, draft.now)
        return replace(node, data={**node.data, FILE: path}), True
    path, memory = found
    node = replace(node, data={**node.data, FILE: path})
    if memory.text == edit.detail.strip("\n"):
        return node, False
    _refuse_unread(draft, path, memory, edit)
    draft.files[path] = memory_files.written(node, memory, edit.detail, draft.now)
    return node, True


def _refuse_unread(draft: Draft, path: str, memory: memories.Memory, edit: Upsert) -> None:
    if not memory.text.strip():
        return
    current = draft.around.version(draft.path(edit.uri))
    if edit.expect_version is None:
        raise Stale(
            "this node already has a detail, and replacing it needs the version you read", current=current, at=edit.uri,
            next="Get the node with its content, then put again with expect_version.",
        )  # fmt: skip
    served = draft.around.served_blob(path, edit.expect_version)
    if served is not None and served != draft.tip.blob_at(path):
        raise Stale(
            "the detail of this node was written meanwhile", current=current, at=edit.uri,
            next="Get it again, look at what changed, and put with the current version.",
        )  # fmt: skip
