"""The edits: one function for each kind, which applies it to a draft, and the link rules, which are applied last.

Each function changes the draft or raises. Repeating a change that was already made gives a warning, not an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import lru_cache, singledispatch
from typing import Any

from kgd.codec import canonical, documents, front_matter, paths
from kgd.errors import Advice, Do, Invalid, InvariantViolation, NotFound, Stale
from kgd.model.change import Append, Delete, Edit, Log, Move, Relate, Revert, Settle, Unrelate, Untag, Upsert
from kgd.model.conflict import WHOLE, Conflict, canonical_json
from kgd.model.fields import field_of, misspelt, plain
from kgd.model.merge_graph import renamed
from kgd.model.node import (
    FACTS,
    FIELDS,
    FILE,
    MEMORY_TYPES,
    SCALARS,
    SETS,
    SUPERSEDES,
    Json,
    Node,
    Relation,
    Source,
    folded,
)
from kgd.model.uri import IN_CODE, OWNED, Uri, is_owned, path_of, scheme_of, workspace_of
from kgd.workspace import memory_files
from kgd.workspace.writing.broken_links import broken_by
from kgd.workspace.writing.draft import Draft, is_resource
from kgd.workspace.writing.settling import carry, is_about_node, revert, settle

DETAIL = "detail"
LIST_CONFLICTS = Advice("List the open conflicts with ", Do("conflicts"), ".")
RELATION_TYPES = (
    *("about", "calls", "contains", "depends_on", "implemented_in", "imports", "made", "mentions", "owns", "part_of"),
    *("related_to", "relates_to", "replaces", "summarised_by", "summarises", "superseded_by", "supersedes", "uses"),
    "works_on",
)
"""Relation types that kgd writes, its manual shows, or many others use. Any other type is allowed."""
LIKE_A_TYPE = 0.8
"""Similarity from which a relation type, or the scheme of a new resource, is taken for a misspelling of kgd's own."""

SHOWN_AS = {"area": "atom", "group": "molecule"}
"""Types by the names that lists and pages show for them."""
EXTERNAL_SCHEMES = frozenset({"cid", "data", "doi", "geo", "isbn", "magnet", "mailto", "news", "sip", "tel", "urn"})
"""Schemes of external resources that are written without slashes."""

CLEARABLE = frozenset(FIELDS) - {"uri"}


class NoSuchNode(NotFound):
    """The node to change does not exist; `at` is its URI."""


@singledispatch
def apply(edit: Edit, draft: Draft) -> None:
    """Apply one edit to the draft.

    Raises:
        KgdError: The edit cannot be applied; the caller must drop the whole draft.
    """
    raise Invalid(f"a change of kind {type(edit).__name__} cannot be applied here")


@apply.register
def _upsert(edit: Upsert, draft: Draft) -> None:
    _refuse_deep(edit.data, edit.others, edit.source.others if edit.source else None)
    _refuse_deep(*(given for relation in edit.relations for given in (relation.data, relation.others)))
    uri = _resolved(draft, edit.uri)
    old = draft.node(uri)
    if old is None and edit.exists and not draft.around.in_overlay(uri):
        raise _not_found(uri)
    _expect(draft, uri, edit.expect_version)
    if edit.content is not None and old and old.content and edit.content != old.content and edit.expect_version is None:
        raise Stale(
            "this node already has content; to replace it, give the version that you read",
            current=draft.around.version(draft.path(uri)),
            at=uri,
            next=Advice(
                "Read it with ",
                Do("get"),
                ", then write it with expect_version, or add text with ",
                Do("put", op="append"),
                ".",
            ),
        )
    node = upserted(old or Node(uri), edit)
    node, is_new = with_detail(draft, old, node, edit)
    if old is None and (meant := _meant_type(node.type)):
        draft.warnings.append(f"{uri} has the type {node.type}; did you mean {meant}?")
    elif node.type != (old.type if old else "") and _has_blank(node.type):
        draft.warnings.append(f"{uri} has a type with a blank, '{node.type[:60]}'; did you mean {_joined(node.type)}?")
    home = draft.around.workspace
    if old is None and is_owned(uri) and is_resource(uri, home) and not draft.around.in_overlay(uri):
        draft.warnings.append(_not_in_code(uri))
    elif old is None and not is_owned(uri):
        draft.warnings += _like_a_type(uri)
    if old is not None and node == old and not is_new:
        draft.warnings.append(f"{uri} already has these values; nothing changed")
    draft.put(node)


def upserted(old: Node, edit: Upsert) -> Node:
    """The node with the fields of an upsert, regardless of the expected version."""
    node = _cleared(old, tuple("data.file" if name == DETAIL else name for name in edit.unset))
    given = {name: value for name in SCALARS if (value := getattr(edit, name)) is not None}
    given |= {name: (*getattr(node, name), *added) for name in SETS if (added := getattr(edit, name))}
    if edit.source is not None:
        given["source"] = _with_known_keys(edit.source, node.source)
    given["data"] = merged_data(node.data, edit.data)
    given["others"] = _replaced(node.others, edit.others)
    if edit.relations:
        added = (_with_others(new, node.relation(new.type, new.target)) for new in edit.relations)
        given["relations"] = node.relations_with(*added)
    return _without_copied_name(old, replace(node, **given), is_named=edit.name is not None)


def _without_copied_name(old: Node, node: Node, *, is_named: bool) -> Node:
    """A fact whose name copies its summary loses the name when either is written, since the copy would become stale."""
    if scheme_of(node.uri) not in FACTS or (node.name, node.summary) == (old.name, old.summary):
        return node
    was_copied = old.name == old.summary and not is_named
    return replace(node, name="") if was_copied or node.name == node.summary else node


def _with_others(new: Relation, old: Relation | None) -> Relation:
    if not new.others and not (old and old.others):
        return new
    return replace(new, others=_replaced(old.others if old else {}, new.others))


def _with_known_keys(new: Source, old: Source | None) -> Source:
    """The new source, with the unknown keys of the old source if both sources are equal."""
    return replace(new, others=_replaced(old.others if old and new.key == old.key else {}, new.others))


def _replaced(old: Mapping[str, Json], new: Mapping[str, Json]) -> dict[str, Json]:
    """The mapping with these values; None deletes a key."""
    return {key: value for key, value in {**old, **new}.items() if key not in new or value is not None}


@apply.register
def _append(edit: Append, draft: Draft) -> None:
    uri = _resolved(draft, edit.uri)
    text = edit.text.strip("\n")
    if not text.strip():
        raise Invalid("there is no text to append", at="text", next="Give a text.")
    old = _node_or_new(draft, uri, creates=edit.creates)
    before = old.content.rstrip("\n")
    draft.put(replace(old, content=f"{before}\n\n{text}\n" if before else f"{text}\n"))


@apply.register
def _delete(edit: Delete, draft: Draft) -> None:
    uri = _resolved(draft, edit.uri)
    _required(draft, uri)
    _expect(draft, uri, edit.expect_version)
    draft.remove(uri)


@apply.register
def _relate(edit: Relate, draft: Draft) -> None:
    _refuse_deep(edit.relation.data, edit.relation.others)
    source = _resolved(draft, edit.source)
    node = _node_or_new(draft, source)
    relation = edit.relation
    old = node.relation(relation.type, relation.target)
    if old:
        weight = relation.weight if "weight" in edit.explicit else old.weight
        data = relation.data if "data" in edit.explicit else old.data
        relation = replace(relation, weight=weight, data=data, others=old.others)
        if relation == old:
            draft.warnings.append(f"{source} already {relation.type} {relation.target}; nothing changed")
    draft.put(node.with_relation(relation))


@apply.register
def _unrelate(edit: Unrelate, draft: Draft) -> None:
    source = _resolved(draft, edit.source)
    node = _required(draft, source)
    if node.relation(edit.type, edit.target) is None:
        draft.warnings.append(f"{source} has no relation {edit.type} to {edit.target}; nothing changed")
        return
    draft.put(replace(node, relations=tuple(r for r in node.relations if r.key != (edit.type, edit.target))))


@apply.register
def _untag(edit: Untag, draft: Draft) -> None:
    uri = _resolved(draft, edit.uri)
    node = _required(draft, uri)
    tags = folded(edit.tags) if node.type in MEMORY_TYPES else edit.tags
    missing = sorted(set(tags) - set(node.tags))
    if missing:
        draft.warnings.append(f"{uri} has no tag {', '.join(missing[:5])}")
    draft.put(replace(node, tags=tuple(tag for tag in node.tags if tag not in tags)))


@apply.register
def _move(edit: Move, draft: Draft) -> None:
    uri = _resolved(draft, edit.uri)
    node = _required(draft, uri)
    _refuse_foreign(draft, edit.to)
    if edit.to == uri:
        draft.warnings.append(f"{uri} already exists; nothing changed")
        return
    if draft.node(edit.to) is not None:
        raise InvariantViolation(
            "there is already a node with this URI", at=edit.to, next="Choose another URI, or delete that node."
        )
    there = renamed(node, edit.to)
    draft.remove(uri)
    draft.put(there)
    carry(draft, uri, there)
    for path in draft.log_paths(uri):
        data = draft.read_file(path)
        if data is not None:
            entry = replace(documents.decode_entry(data, at=path), parent=edit.to)
            draft.files |= {path: None, paths.log_path(edit.to, entry.id): documents.encode_entry(entry)}


@apply.register
def _settle(edit: Settle, draft: Draft) -> None:
    path, conflict = find_conflict(draft, edit.conflict)
    unknown = sorted(set(edit.fields) - set(conflict.fields))
    if unknown:
        raise Invalid(
            f"the conflict is not about '{unknown[0][:80]}'",
            at="fields",
            next=f"Its fields are: {', '.join(conflict.fields)[:200]}.",
        )
    uri = _resolved(draft, conflict.uri)
    node = draft.node(uri)
    if edit.as_shown and is_about_node(conflict) and not is_as_shown(node, conflict):
        raise Stale(
            "the value was changed after this conflict was found",
            current=draft.around.version(draft.path(uri)),
            at=conflict.id[-80:],
            next="Get the node, and decide again.",
        )
    draft.files[path] = None
    draft.settled.append(path)
    settle(draft, conflict, uri, edit.fields)
    left = {name: field for name, field in conflict.fields.items() if name not in edit.fields}
    if left:
        draft.record(replace(conflict, fields=left, shown={name: conflict.shown[name] for name in left}))


@apply.register
def _log(edit: Log, draft: Draft) -> None:
    parent = _resolved(draft, edit.entry.parent)
    _required(draft, parent)
    entry = replace(edit.entry, parent=parent)
    draft.files[paths.log_path(parent, entry.id)] = documents.encode_entry(entry)


@apply.register
def _revert(edit: Revert, draft: Draft) -> None:
    revert(edit, draft)


def is_as_shown(node: Node | None, conflict: Conflict) -> bool:
    """Whether each field of the conflict still has the value that is marked as served in the record."""
    for field, clash in conflict.fields.items():
        shown = clash.sides[conflict.shown.get(field, 0)]
        if field == WHOLE:
            moved = node is not None and isinstance(shown, Mapping) and shown.get("uri") != node.uri
            value = (plain(node) | ({"uri": shown["uri"]} if moved else {})) if node is not None else None
        else:
            value = field_of(node, field)
        if canonical_json(value) != canonical_json(shown):
            return False
    return True


def find_conflict(draft: Draft, id: str) -> tuple[str, Conflict]:
    """The record at the tip with an id of the form ``<uri>#<digest>``.

    Raises:
        NotFound: The conflict is not open.
    """
    uri, _, digest = id.rpartition("#")
    for path in draft.conflict_records(Uri(uri)) if uri else ():
        if path.endswith(f"/{digest}.yaml"):
            data = draft.read_file(path)
            if data is not None:
                return path, documents.read_record(data, path, draft.around.sharded, draft.around.workspace)
    raise NotFound("this conflict is not open", at=id[-80:], next=LIST_CONFLICTS)


def check_links(draft: Draft) -> None:
    """Apply rule E8 to every new relation: create a missing resource, or warn of a missing concept. A revert, or the
    settlement of a conflict, restores a relation to a missing file of the code without a node for the file. The
    relations of a moved node are not new.

    Remaining relations to a removed node, and probably misspelt relation types, give a warning as well.
    """
    types, gone = dict[str, None](), dict[Uri, None]()
    if None in (changed := draft.changed()).values():
        draft.warnings += broken_by(changed, draft.around.graph, draft.around.in_overlay)
    for uri, node in changed.items():
        if node is None:
            continue
        former = (one for one in node.aliases if one in changed and changed[one] is None)  # of a moved node
        before = filter(None, map(draft.before, (uri, *former)))
        known = {relation.key for one in before for relation in one.relations}
        for relation in node.relations:
            if relation.key not in known:
                if (uri, relation.key) in draft.restored and _is_missing_file(draft, relation.target):
                    gone[relation.target] = None
                else:
                    _check_link(draft, relation)
                if draft.around.resolve(relation.target) == uri:
                    draft.warnings.append(f"{uri} has a relation to itself: {relation.type}")
                if relation.type.casefold() == SUPERSEDES and scheme_of(relation.target) in IN_CODE:
                    draft.warnings.append(f"{relation.target} is code; {SUPERSEDES} has an effect only between nodes")
                types[relation.type] = None
    if gone:
        draft.warnings.append(_restored(list(gone)))
    draft.warnings += filter(None, map(_type_warning, types))


def misspelt_keys(draft: Draft) -> list[str]:
    """Warnings about unknown keys in the changed nodes, for each key that is probably a misspelt field."""
    changed = ((uri, draft.node(uri)) for uri in draft.touched())
    return [f"{uri}: {said}" for uri, node in changed if node for said in misspelt(node)]


def doubled_relations(edits: Iterable[Edit]) -> list[str]:
    """Warnings for relations to which one change gives two values; the last value is used."""
    given: dict[tuple[Uri, str, Uri], Relation] = {}
    found: dict[str, None] = {}
    for edit in edits:
        source = edit.source if isinstance(edit, Relate) else getattr(edit, "uri", None)
        relations = (edit.relation,) if isinstance(edit, Relate) else getattr(edit, "relations", ())
        for one in relations if source else ():
            before = given.setdefault((source, *one.key), one)
            if (before.weight, before.data) != (one.weight, one.data):
                found[f"{source} {one.type} {one.target} is given two values in this change; the last one is used"] = (
                    None
                )
    return list(found)


def _not_in_code(uri: Uri) -> str:
    return f"{uri} is not in the code tree; it was created as a resource, which undo removes"


def _restored(gone: list[Uri]) -> str:
    first, more = gone[0], len(gone) - 1
    if not more:
        return f"{first} is not in the code tree; the restored link to it is broken"
    return f"{first} and {more} more are not in the code tree; the restored links to them are broken"


def _is_missing_file(draft: Draft, target: Uri) -> bool:
    is_file = is_owned(target) and is_resource(target, draft.around.workspace)
    return is_file and not _is_there(draft, target)


def _is_there(draft: Draft, target: Uri) -> bool:
    return draft.exists(target) or draft.exists(draft.around.resolve(target)) or draft.around.in_overlay(target)


def _check_link(draft: Draft, relation: Relation) -> None:
    target, home = relation.target, draft.around.workspace
    workspace = workspace_of(target)
    if workspace not in (None, home):
        if not draft.around.knows_workspace(workspace or ""):
            draft.warnings.append(
                f"{target} is in a workspace that is not registered here; until it is, the link is broken"
            )
        return
    if _is_there(draft, target):
        return
    if is_resource(target, home):
        draft.put(Node(target))
        if is_owned(target):
            draft.warnings.append(_not_in_code(target) + _meant_file(draft, target))
        elif meant := _meant_type(scheme_of(target)):
            rest = target.partition(":")[2]
            draft.warnings.append(f"{target} was created as a resource; did you mean {meant}:{rest}?")
    else:
        or_file = f", and no file {path_of(target)}" if scheme_of(target) == "concept" else ""
        draft.warnings.append(f"no node is called {target}{or_file}: the link stays broken until there is one")


def _like_a_type(uri: Uri) -> list[str]:
    """A warning about a new external resource whose scheme may be meant as a type; empty for others."""
    scheme, _, rest = uri.partition(":")
    if rest.startswith("/") or scheme in EXTERNAL_SCHEMES:
        return []
    made = f"{uri} was created as an external resource, which undo removes"
    if meant := _meant_type(scheme):
        return [f"{made}; did you mean {meant}:{rest}?"]
    return [f"{made}; for a node of the type {scheme}, give the type and a name instead of a URI"]


def _meant_file(draft: Draft, target: Uri) -> str:
    """The question that names the file, for a target such as ``src/app.py:12``; empty without such a file."""
    file, _, lines = target.rpartition(":")
    is_line = lines.replace("-", "").isdecimal() and is_owned(file)
    is_meant = is_line and (draft.exists(Uri(file)) or draft.around.in_overlay(Uri(file)))
    return f"; did you mean {file}? A relation leads to a whole file" if is_meant else ""


@lru_cache(maxsize=256)
def _meant_type(written: str) -> str:
    """The type of which this is probably a misspelling; empty if it is a type itself, or like none. Cached, because a
    comparison with all types takes a tenth of the time of a change."""
    if written in OWNED:
        return ""
    return SHOWN_AS.get(written) or next(iter(get_close_matches(written, OWNED, n=1, cutoff=LIKE_A_TYPE)), "")


@lru_cache(maxsize=256)
def _type_warning(type: str) -> str:
    """A warning about a relation type that is probably a mistake; empty for others. Case is ignored."""
    if _has_blank(type):
        return f"the relation type '{type[:60]}' contains whitespace; did you mean {_joined(type)}?"
    small = type.casefold()
    like = [] if small in RELATION_TYPES else get_close_matches(small, RELATION_TYPES, n=1, cutoff=LIKE_A_TYPE)
    return f"a relation has the type '{type[:60]}'; did you mean {like[0]}?" if like else ""


def _has_blank(type: str) -> bool:
    return any(map(str.isspace, type))


def _joined(type: str) -> str:
    return "_".join(type.split())[:60]


def _refuse_deep(*given: Json) -> None:
    """Refuse deeply nested data before recursive functions read it."""
    for data in filter(None, given):
        canonical.check_depth(data)


def merged_data(old: Mapping[str, Json], new: Mapping[str, Json]) -> dict[str, Json]:
    """Merge by key, including nested mappings; None deletes a key."""
    out: dict[str, Any] = dict(old)
    for key, value in new.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, Mapping):
            inner = out.get(key)
            out[key] = merged_data(inner if isinstance(inner, Mapping) else {}, value)
        else:
            out[key] = value
    return out


def _cleared(node: Node, unset: tuple[str, ...]) -> Node:
    for name in unset:
        if name in node.others:
            node = replace(node, others={key: value for key, value in node.others.items() if key != name})
            continue
        field, dot, key = name.partition(".")
        if field not in CLEARABLE or (dot and field != "data"):
            raise Invalid(f"'{name[:80]}' cannot be unset", at="unset", next="Name a stored field, or data.<key>.")
        if dot:
            node = replace(node, data={k: v for k, v in node.data.items() if k != key})
        else:
            empty = Node(node.uri)
            node = replace(node, **{field: getattr(empty, field)})
    return node


def _resolved(draft: Draft, uri: Uri) -> Uri:
    """The URI itself if a node has it; otherwise the new URI of a node that was moved from it."""
    _refuse_foreign(draft, uri)
    return uri if draft.node(uri) is not None else draft.around.resolve(uri)


def _refuse_foreign(draft: Draft, uri: Uri) -> None:
    if is_owned(uri) and workspace_of(uri) != draft.around.workspace:
        raise Invalid(
            f"this workspace is '{draft.around.workspace}', but the node belongs to '{workspace_of(uri)}'",
            at=uri,
            next="Address that workspace, or write the node here under this workspace's id.",
        )


def _node_or_new(draft: Draft, uri: Uri, *, creates: bool = False) -> Node:
    """The node. A missing one is created if the edit `creates` nodes, or if the URI is external or in the code tree."""
    node = draft.node(uri)
    if node is None and not (creates or draft.around.in_overlay(uri) or is_resource(uri, draft.around.workspace)):
        raise _not_found(uri)
    return node or Node(uri)


def _required(draft: Draft, uri: Uri) -> Node:
    node = draft.node(uri)
    if node is None and draft.around.in_overlay(uri):
        advice = Advice("See the facts about it with ", Do("context"), ".")
        raise NotFound("nothing is stored about this file or folder of the code", at=uri, next=advice)
    if node is None:
        raise _not_found(uri)
    return node


def _not_found(uri: Uri) -> NoSuchNode:
    return NoSuchNode("there is no such node", at=uri, next=Advice("Find it with ", Do("search"), "."))


def _expect(draft: Draft, uri: Uri, expected: int | None) -> None:
    if expected is None:
        return
    path = draft.path(uri)
    blob = draft.read(uri).blob
    current = draft.around.version(path) if blob else 0
    served = draft.around.served_blob(path, expected)
    if expected != current or (served is not None and served != blob):
        raise Stale(
            f"the node is at version {current}, but the change expected {expected}",
            current=current,
            at=uri,
            next=Advice("See the change with ", Do("get"), ", then write with the current version."),
        )


def with_detail(draft: Draft, old: Node | None, node: Node, edit: Upsert) -> tuple[Node, bool]:
    """The node with its detail file changed as the edit requires, and whether that file changed.

    Raises:
        Invalid: The node's type has no detail, or the edit both sets and clears it.
        Stale: There is already a detail, and the edit has no expected version or an outdated version.
    """
    if edit.detail is None or (old is None and not edit.detail.strip()):
        return node, False
    if DETAIL in edit.unset:
        raise Invalid("`detail` is both given and unset", at=DETAIL, next="Give it, or unset it.")
    memory_files.refuse_detail(node)
    if not edit.detail.strip():
        return replace(node, data={key: value for key, value in node.data.items() if key != FILE}), True
    found = memory_files.detail_of(old, draft.read_file) if old else None
    if found is None:
        path = memory_files.file_of(node) or ""  # an import keeps the file's name
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


def _refuse_unread(draft: Draft, path: str, memory: front_matter.Memory, edit: Upsert) -> None:
    if not memory.text.strip():
        return
    current = draft.around.version(draft.path(edit.uri))
    if edit.expect_version is None:
        raise Stale(
            "this node already has a detail; to replace it, give the version that you read",
            current=current,
            at=edit.uri,
            next=Advice("Read its content with ", Do("get"), ", then write it with expect_version."),
        )
    served = draft.around.served_blob(path, edit.expect_version)
    if served is not None and served != draft.tip.blob_at(path):
        raise Stale(
            "the detail of this node has changed since you read it",
            current=current,
            at=edit.uri,
            next=Advice("See the change with ", Do("get"), ", then write with the current version."),
        )
