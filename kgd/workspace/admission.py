"""This file is where it is decided whether bytes that a person wrote may become part of the workspace."""

from __future__ import annotations

import re
from functools import partial

from kgd.codec import bulk, documents, memories, paths
from kgd.codec.settings import decode_settings
from kgd.errors import Invalid, KgdError, Limit
from kgd.model.node import Node
from kgd.workspace import memory_files
from kgd.workspace.draft import MAX_NODE_BYTES
from kgd.workspace.secrets import SAY_WHERE, HoldsSecret, Secret, first_in, line_of, refuse_secrets
from kgd.workspace.work_tree import SETTINGS


def check(path: str, data: bytes, base: bytes | None, workspace: str, sharded: frozenset[str]) -> None:
    """Whether these bytes may become part of the workspace at this path.

    Raises:
        KgdError: Why not; `at` is ``<path>:<line>``.
    """
    top = path.partition("/")[0]
    if top == "nodes":
        node = _node(path, data, workspace, sharded)
        try:
            refuse_secrets(node, place=partial(_place_in_node, path, data))
        except HoldsSecret:
            if not _has_secret(path, base, workspace, sharded):  # one that is committed already is no news
                raise
    elif bulk.is_path(path):
        _check_part(path, data, base, workspace)
    elif top == "conflicts":
        documents.read_record(data, path, sharded, workspace)
    elif path == SETTINGS:
        settings = decode_settings(data, at=path)
        if settings.workspace != workspace or settings.sharded != sharded:
            raise Invalid("the workspace's id and its sharded schemes cannot be changed", at=f"{path}:1")
    elif b"\0" in data or not _is_text(data):
        raise Invalid("this is no UTF-8 text", at=f"{path}:1")
    elif memories.is_path(path):
        memory_files.check_bytes(path, data, base)


def check_secrets(path: str, data: bytes, base: bytes | None, workspace: str, sharded: frozenset[str]) -> None:
    """Whether these bytes bring a secret, whether or not the workspace could serve the file.

    Raises:
        HoldsSecret: They do; `at` is ``<path>:<line>``.
    """
    try:
        check(path, data, base, workspace, sharded)
        if path.startswith(("nodes/", "memories/")) or bulk.is_path(path):
            return
    except HoldsSecret:
        raise
    except KgdError:
        pass  # a later commit may mend the file, but its text stays in history
    found = first_in(data.decode("utf-8", "replace"))
    if found and not (base and first_in(base.decode("utf-8", "replace"))):
        raise HoldsSecret(
            f"this file holds what looks like a secret ({found.kind})", at=f"{path}:{line_of(found, data)}",
            next=SAY_WHERE,
        )  # fmt: skip


def _node(path: str, data: bytes, workspace: str, sharded: frozenset[str]) -> Node:
    expected = paths.uri_of(path, workspace, sharded)
    if len(data) > MAX_NODE_BYTES:
        raise Limit(f"a node has at most {MAX_NODE_BYTES >> 10} KiB, this file has {len(data) >> 10}", at=f"{path}:1")
    node = documents.decode(data, at=path, expect=expected)
    if expected is None and paths.path_of(node.uri, sharded) != path:
        raise Invalid(f"the node {node.uri} belongs into {paths.path_of(node.uri, sharded)}", at=f"{path}:1")
    return node


def _check_part(path: str, data: bytes, base: bytes | None, workspace: str) -> None:
    nodes = bulk.read(data, path, workspace).nodes
    try:
        before = bulk.split(base, at=path).nodes if base is not None else {}
    except KgdError:
        before = {}
    for uri, node in nodes.items():
        if before.get(uri) != node:
            old = documents.decode(before[uri]) if uri in before else None
            opening = rb"""^.*\buri["']?[ \t]*:[ \t]*["']?%b(?![^\s"',}])""" % re.escape(uri).encode()
            refuse_secrets(documents.decode(node, at=path), old, partial(_place, path, data, opening))


def _place_in_node(path: str, data: bytes, field: str, secret: Secret) -> str:
    opening = rb"""^["']?%b["']?[ \t]*:""" % re.escape(field.partition(".")[0]).encode()
    return _place(path, data, opening, field, secret)


def _place(path: str, data: bytes, opening: bytes, _field: str, secret: Secret) -> str:
    """Where the secret is, looked for from the line on which `opening` is found."""
    found = re.search(opening, data, re.MULTILINE)
    return f"{path}:{line_of(secret, data, found.start() if found else 0)}"


def _has_secret(path: str, data: bytes | None, workspace: str, sharded: frozenset[str]) -> bool:
    try:
        if data is not None:
            refuse_secrets(_node(path, data, workspace, sharded))
    except HoldsSecret:
        return True
    except KgdError:
        pass
    return False


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
