"""Admission of nodes and files: one set of rules for every way into a workspace.

Submitted edits are checked node by node (`Draft.finish`). A push, a proposal, a commit hook and a saved file are
checked by file (`check`). A merge or a sync is not checked, since history is never rewritten; `kgd fsck` reports
violations. A rule that a node already broke before a change does not prevent the change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from kgd.codec import bulk, documents, front_matter, paths
from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import decode_settings
from kgd.errors import Invalid, InvariantViolation, KgdError, Limit, whole
from kgd.git.objects import ObjectId, is_text
from kgd.git.store import ObjectStore
from kgd.model.conflict import Conflict
from kgd.model.dates import validity
from kgd.model.fields import CITES, VALID
from kgd.model.node import MEMORY_TYPES, NODE_BYTES, NODE_FIELDS, UNSEEN, Node, Relation, Shape
from kgd.model.uri import Uri, scheme_of, workspace_of
from kgd.workspace import memory_files
from kgd.workspace.memory_files import Home
from kgd.workspace.parts import node_in
from kgd.workspace.writing.secrets import (
    SAY_WHERE,
    HoldsSecret,
    Secret,
    line_of,
    new_secret_in,
    refuse_secrets,
    secret_in_values,
)

Place = Callable[[str, Secret | None], str]
"""Returns the place of a field, or of a secret in it, as ``<path>:<line>``."""


_LINES = tuple(row.name for row in NODE_FIELDS if row.shape is Shape.LINE)

# ---- nodes


def admit(node: Node, before: Node | None, data: bytes, home: Home, place: Place | None = None) -> None:
    """Check that the workspace admits this node as a replacement of `before`.

    Args:
        data: The bytes of its file, real or virtual.
        place: Returns the place of a field in a file; without it, errors name the node.

    Raises:
        KgdError: A rule is broken."""
    admit_text(node, before, data, place)
    _admit_naming(node, before, home, place)


def admit_text(node: Node, before: Node | None, data: bytes, place: Place | None = None) -> None:
    """Check the node's own text.

    Raises:
        Limit, Invalid, HoldsSecret: The text is too large, or contains invisible characters or a secret.
    """
    _refuse_large(data, place("uri", None) if place else node.uri)
    for field in _LINES:
        text = getattr(node, field)
        if UNSEEN(text) and (before is None or getattr(before, field) != text):
            raise Invalid(
                f"a {field} cannot have line ends, control or direction characters",
                at=place(field, None) if place else node.uri,
                next="Leave them out.",
            )
    if scheme_of(node.uri) in AREAS:
        admit_area(node, before, place)
    _refuse_citations(node, before, place)
    _refuse_validity(node, before, place)
    refuse_secrets(node, before, place)


def _refuse_citations(node: Node, before: Node | None, place: Place | None) -> None:
    """Refuse citations that are not strings, which would never be compared with the code."""
    cites = node.data.get(CITES)
    if cites is None or isinstance(cites, str) or (isinstance(cites, list) and all(isinstance(c, str) for c in cites)):
        return
    if before is None or before.data.get(CITES) != cites:
        raise Invalid(
            "data.cites must be a list of strings",
            at=place("data", None) if place else node.uri,
            next='Write each citation as "path", "path#symbol" or "path@commit#symbol".',
        )


def _refuse_validity(node: Node, before: Node | None, place: Place | None) -> None:
    """Refuse a validity in another form, which would never expire."""
    valid = node.data.get(VALID)
    if valid is None or (before is not None and before.data.get(VALID) == valid):
        return
    try:
        validity(valid)
    except ValueError as error:
        part, reason = error.args
        raise Invalid(
            f"data.{part} {reason}",
            at=place("data", None) if place else node.uri,
            next='Write {"from": "2026-05-01", "until": "2026-12-31"}, or only one of the two.',
        ) from None


def _refuse_large(data: bytes, at: str) -> None:
    if len(data) > NODE_BYTES:
        raise Limit(
            f"a node has at most {NODE_BYTES >> 10} KiB; this one has {whole(len(data), 1024)} KiB",
            at=at,
            next="Split it into several nodes and relate them.",
        )


def _admit_naming(node: Node, before: Node | None, home: Home, place: Place | None) -> None:
    """Check that a node names only its own memory file, and has a type that can have one."""
    path = memory_files.file_of(node)
    was = memory_files.file_of(before)
    if path is None:
        return
    at = place("data", None) if place else node.uri
    if node.type not in MEMORY_TYPES and (was is None or before is None or before.type in MEMORY_TYPES):
        raise memory_files.no_detail(node, at)
    if path == was:
        return
    data = home.read(path)
    memory = front_matter.memory_in(data, path)
    is_own = memory_files.belongs(memory, node)
    is_renamed = data is None and memory_files.detail_of(before, home.read) is not None
    owner = memory_files.owner_of(memory)
    is_left_behind = (  # if a person changed the node's URI, kgd rewrites the id
        owner is not None
        and workspace_of(owner) == home.workspace
        and home.read(paths.path_of(owner, home.sharded)) is None
    )
    if not is_own and not is_renamed and not is_left_behind:
        raise Invalid(
            "data.file names the memory of another node",
            at=at,
            next="Give the text as `detail`, or write a file whose `id` is this node's URI.",
        )


def twin_of(uri: Uri, twin: Uri, at: str = "") -> InvariantViolation:
    """The refusal of a new node whose name some file systems cannot distinguish from another name."""
    return InvariantViolation(
        "there is already a node whose name differs only in letter case or normal form",
        at=at or uri,
        next=f"Use {twin}, or choose another name: some file systems cannot store both.",
    )


def twins_among(
    found: Iterable[Conflict], store: ObjectStore, old: ObjectId | None, sharded: frozenset[str]
) -> Iterator[InvariantViolation]:
    """A refusal of the new node in each colliding pair; `old` is the tree before the change."""
    for one in found:
        first, second = sorted(Uri(side) for field in one.fields.values() for side in field.sides)
        was_there = old is not None and store.entry(old, paths.path_of(second, sharded)) is not None
        uri, twin = (first, second) if was_there else (second, first)
        yield twin_of(uri, twin, f"{paths.path_of(uri, sharded)}:1")


# ---- files


def check(path: str, data: bytes, base: bytes | None, home: Home) -> None:
    """Check that these bytes may replace `base` at this path.

    Raises:
        KgdError: The broken rule; `at` is ``<path>:<line>``.
    """
    top = path.partition("/")[0]
    if top == "nodes":
        node = _node(path, data, home)
        admit(node, node_in(path, base), data, home, partial(_place_in_node, path, data))
    elif paths.is_part_path(path):
        _check_part(path, data, base, home)
    elif top == "conflicts":
        documents.read_record(data, path, home.sharded, home.workspace)
    elif path == SETTINGS:
        settings = decode_settings(data, at=path)
        if settings.workspace != home.workspace or settings.sharded != home.sharded:
            raise Invalid("the workspace's id and its sharded schemes cannot be changed", at=f"{path}:1")
    elif b"\0" in data or not is_text(data):
        raise Invalid("this is not UTF-8 text", at=f"{path}:1")
    elif paths.is_memory_path(path):
        admit_memory(path, data, base, home)
    elif top == "log":
        admit_entry(path, data, base, home)


def admit_memory(path: str, data: bytes, base: bytes | None, home: Home, owner: str = "") -> None:
    """Check that a memory file may have this content instead of `base`. A file that was never a memory is not checked.

    Args:
        owner: The node to name in errors, if its detail was given; if empty, errors name the file.

    Raises:
        KgdError: The broken rule; `at` is ``<path>:<line>``, or `owner`.
    """
    before = front_matter.memory_in(base, path)
    if before is None and not data.startswith((b"---\n", b"---\r\n", b"\xef\xbb\xbf---")):
        return
    memory = front_matter.decode(data, at=path)
    if len(data) > NODE_BYTES:
        raise Limit(
            f"a memory has at most {NODE_BYTES >> 10} KiB; this one has {whole(len(data), 1024)} KiB",
            at=owner or f"{path}:1",
            next="Split it into several nodes and relate them.",
        )
    was = memory_files.owner_of(before)
    if was is not None and memory_files.owner_of(memory) != was and not _is_moved(path, was, memory, home):
        raise Invalid(
            f"this file is the detail of {was}, so its 'id' must name that node",
            at=f"{path}:2",
            next="Restore the id; `kgd mv` changes a node's URI.",
        )
    try:
        Node(Uri("insight://x/x"), tags=memory.tags)
    except KgdError as refusal:
        raise Invalid(refusal.message, at=f"{path}:1", next=refusal.next) from None
    found = new_secret_in(data.decode(), (base or b"").decode("utf-8", "replace"))
    if found:
        what = "the field 'detail'" if owner else "this file"
        at = owner or f"{path}:{line_of(found, data)}"
        raise HoldsSecret(f"{what} holds what looks like a secret ({found.kind})", at=at, next=SAY_WHERE)


def _is_moved(path: str, was: Uri, memory: front_matter.Memory, home: Home) -> bool:
    """Whether the node moved to another URI and still names this file."""
    owner = memory_files.owner_of(memory)
    node = home.node(owner) if owner else None
    return memory_files.file_of(node) == path and home.read(paths.path_of(was, home.sharded)) is None


def admit_entry(path: str, data: bytes, base: bytes | None, home: Home) -> None:
    """Check that the changelog admits this entry: it must be about an existing node, and entries are never rewritten.

    Raises:
        KgdError: The broken rule; `at` is ``<path>:<line>``.
    """
    at = f"{path}:1"
    try:
        entry = documents.decode_entry(data, at=path)
        belongs = paths.log_path(entry.parent, entry.id)
    except KgdError as refusal:
        refusal.at = refusal.at if refusal.at.startswith(path) else at
        raise
    if belongs != path or workspace_of(entry.parent) not in (None, home.workspace):
        raise Invalid("this changelog entry is at the wrong path", at=at, next=f"It belongs at {belongs[:200]}.")
    if base is not None and data != base:
        raise Invalid("a changelog entry cannot be changed", at=at, next="Add another entry that corrects it.")
    own = paths.path_of(entry.parent, home.sharded)
    if base is None and paths.part_folder_of(entry.parent) is None and home.read(own) is None:
        raise Invalid(f"this entry is about {entry.parent}, which does not exist", at=at, next="Write that node first.")
    if kind := secret_in_values({"summary": entry.summary, **entry.others}):
        raise HoldsSecret(f"this entry holds what looks like a secret ({kind})", at=at, next=SAY_WHERE)


def check_secrets(path: str, data: bytes, base: bytes | None, home: Home) -> None:
    """Check that these bytes do not add a secret, even in a file that cannot be served.

    Raises:
        HoldsSecret: The bytes add a secret; `at` is ``<path>:<line>``.
    """
    try:
        check(path, data, base, home)
        if path.startswith(("nodes/", "memories/")) or paths.is_part_path(path):
            return
    except HoldsSecret:
        raise
    except KgdError:
        pass  # a later commit may mend the file, but the text stays in the history
    if found := new_secret_in(data.decode("utf-8", "replace"), (base or b"").decode("utf-8", "replace")):
        raise HoldsSecret(
            f"this file holds what looks like a secret ({found.kind})",
            at=f"{path}:{line_of(found, data)}",
            next=SAY_WHERE,
        )


def _node(path: str, data: bytes, home: Home) -> Node:
    expected = paths.uri_of(path, home.workspace, home.sharded)
    _refuse_large(data, f"{path}:1")
    node = documents.decode(data, at=path, expect=expected)
    paths.check_place(node.uri, path, home.workspace, home.sharded)
    return node


def _check_part(path: str, data: bytes, base: bytes | None, home: Home) -> None:
    nodes = bulk.read(data, path, home.workspace).nodes
    try:
        before = bulk.split(base, at=path).nodes if base is not None else {}
    except KgdError:
        before = {}
    for uri, entry in nodes.items():
        if before.get(uri) == entry:
            continue
        node, old = (documents.decode(each) if each else None for each in (entry, before.get(uri)))
        assert node is not None
        opening = rb"""^.*\buri["']?[ \t]*:[ \t]*["']?%b(?![^\s"',}])""" % re.escape(uri).encode()
        place = partial(_place, path, data, opening)
        if memory_files.file_of(node):  # memories are looked up in nodes/ only
            raise Invalid(
                "a node that names a memory must have a separate file",
                at=place("data", None),
                next=f"Write it to {paths.path_of(uri, home.sharded)[:200]}.",
            )
        admit(node, old, entry, home, place)


def _place_in_node(path: str, data: bytes, field: str, secret: Secret | None) -> str:
    opening = rb"""^["']?%b["']?[ \t]*:""" % re.escape(field.partition(".")[0]).encode()
    return _place(path, data, opening, field, secret)


def _place(path: str, data: bytes, opening: bytes, _field: str, secret: Secret | None) -> str:
    """The line of the secret, searched from the match of `opening` on; if the secret is not found, the line of that
    match."""
    found = re.search(opening, data, re.MULTILINE)
    start = found.start() if found else 0
    line = line_of(secret, data, start) if secret else data.count(b"\n", 0, start) + 1
    return f"{path}:{line}"


AREAS = frozenset({"atom", "molecule"})
MAX_KNOWLEDGE = 32 * 1024
"""Maximum bytes of an area's content."""
MAX_PATTERNS, MAX_PATTERN = 20, 512
"""Maximum number of an area's patterns, and of characters in each."""
MAX_RELATED = 50
"""Maximum number of relations of an area to other areas of its kind."""
RELATED = "related_to"


def admit_area(area: Node, before: Node | None, place: Callable[[str, None], str] | None = None) -> None:
    """Check that an area is within the limits, or exceeds them by at most as much as `before` did.

    Args:
        place: Returns the place of a field, if a file was read; without it, errors name the node.

    Raises:
        Limit: The area exceeds a limit.
    """

    def at(field: str) -> str:
        return place(field, None) if place else area.uri

    size = len(area.content.strip().encode("utf-8", "surrogatepass"))
    if size > MAX_KNOWLEDGE and (before is None or before.content != area.content):
        raise Limit(
            f"the knowledge of an area has at most {MAX_KNOWLEDGE >> 10} KiB; this one has {whole(size, 1024)} KiB",
            at=at("content"),
            next="Keep only knowledge that is not in the code; move other knowledge to another atom.",
        )
    patterns, known = _patterns(area), _patterns(before) if before else []
    if len(patterns) > max(MAX_PATTERNS, len(known)):
        raise Limit(
            f"an area has at most {MAX_PATTERNS} patterns; this one has {len(patterns)}",
            at=at("data"),
            next="Use broader patterns, or split it into two atoms.",
        )
    if any(isinstance(one, str) and len(one) > MAX_PATTERN and one not in known for one in patterns):
        raise Limit(f"a pattern has at most {MAX_PATTERN} characters", at=at("data"), next="Use * and ** in it.")
    related = len(related_relations(area))
    if related > max(MAX_RELATED, len(related_relations(before)) if before else 0):
        raise Limit(
            f"an area has at most {MAX_RELATED} relations {RELATED} to areas of its kind; this one has {related}",
            at=at("relations"),
            next="Keep only the relations that a reader needs.",
        )


def related_relations(area: Node) -> list[Relation]:
    """The relations of an atom or molecule to others of its kind."""
    kind = scheme_of(area.uri)
    return [one for one in area.relations if one.type == RELATED and scheme_of(one.target) == kind]


def _patterns(area: Node) -> list[Any]:
    found: Any = area.data.get("paths")
    return found if isinstance(found, list) else []
