"""Documents: the bytes of nodes, conflict records and changelog entries (docs/format.md).

An ordinary canonical file of a node is read fast: one regular expression over the whole file proves that it has the
ordinary shape. Any other file is left to the strict parser and the guard, so the result does not depend on the reader.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

from kgd.codec import canonical, paths
from kgd.codec.canonical import NotCanonical, Ordered, Quoted
from kgd.errors import Invalid, KgdError, Limit, whole
from kgd.model import fields
from kgd.model.change import LogEntry
from kgd.model.conflict import PLACE, TWIN, Conflict, FieldConflict, canonical_json
from kgd.model.node import (
    NAME_LIMIT,
    NODE_BYTES,
    NODE_FIELDS,
    RELATION_FIELDS,
    RELATIONS_LIMIT,
    SOURCE_FIELDS,
    SUMMARY_LIMIT,
    TAGS_LIMIT,
    Json,
    Node,
    Relation,
    Shape,
    Source,
    check_label,
    check_others,
    default_type,
)
from kgd.model.uri import OWNED, Uri, is_settings_uri, parse, scheme_of, workspace_of

CONFLICT_BYTES = 1024 * 1024
"""A conflict record contains several versions of fields, each of which may fill a file."""

CONFLICT_DEPTH = canonical.DEPTH + 4
RECORD_FIELDS = ("uri", "fields", "shown")


def encode(node: Node) -> bytes:
    """The canonical bytes of a node.

    Raises:
        Invalid: YAML cannot represent a value exactly, such as NaN or an unpaired surrogate.
        Limit: The node has more than 256 KiB, 20,000 YAML events or 16 levels.
    """
    return _encoded(shape_of(node), at=node.uri)


def decode(data: bytes, *, at: str = "", expect: Uri | None = None) -> Node:
    """The node in a file of any author. `at` names the file in errors; `expect` is the required URI.

    Raises:
        Invalid: The file is not YAML or not a node, or has another URI; the error's place is ``<file>:<line>``.
        Refused: The guard does not accept it (`kgd.codec.guard`).
        Limit: It is too large, is nested too deeply, or has too many events.
    """
    quick = ordinary(data)
    if quick is not None and expect in (None, quick.uri):
        return quick
    values = read_mapping(data, at)
    try:
        node = _node(values)
    except KgdError as error:
        raise _placed(error, values, data, at) from None
    if expect is not None and node.uri != expect:
        wrong = Invalid(
            f"this file must contain the node {expect}", at="uri", next="Undo the change of its uri, or move the file."
        )
        raise _placed(wrong, values, data, at)
    return node


def rewrite(previous: bytes | None, node: Node) -> bytes:
    """The bytes that replace `previous`: canonical, with the user's comments kept. They always decode to `node`.

    Raises:
        Invalid, Limit: As `encode`; the form of `previous` never causes an error.
    """
    data = encode(node)
    if previous is None or b"#" not in previous:
        return data
    from kgd.codec import guard  # ruamel costs 60 ms to import; most files have no comments

    return guard.rewrite(previous, shape_of(node), data, lambda written: decode(written) == node)


def encode_conflict(conflict: Conflict) -> bytes:
    """The canonical bytes of a conflict record: equal on every replica for equal conflicts."""
    shape = {
        "uri": str(conflict.uri),
        "fields": {
            name: {"base": f.base, "sides": list(f.sides)} | ({"round": f.round} if f.round else {})
            for name, f in conflict.fields.items()
        },
        "shown": dict(conflict.shown),
        **fields.in_order(conflict.others),
    }
    text = canonical.dump(shape, depth=CONFLICT_DEPTH)
    return _bounded(text.encode(), CONFLICT_BYTES, conflict.uri)


def decode_conflict(data: bytes, *, at: str = "") -> Conflict:
    """The conflict record in `data`.

    Raises:
        Invalid, Refused, Limit: As `decode`.
    """
    values: Mapping[str, Json]
    try:
        if len(data) > CONFLICT_BYTES:
            raise Limit(f"a conflict record has at most {CONFLICT_BYTES // 1024} KiB", at=at)
        values = canonical.load(data.decode(), depth=CONFLICT_DEPTH)
    except (NotCanonical, UnicodeDecodeError):
        values = read_mapping(data, at)
    try:
        return _conflict(values)
    except KgdError as error:
        raise _placed(error, values, data, at) from None


def read_record(data: bytes, path: str, sharded: frozenset[str], workspace: str | None = None) -> Conflict:
    """The conflict record at a path, which must be the path that its content implies.

    Without this check, a file in one node's folder could affect another node, bypassing that node's permissions.

    Args:
        workspace: If given, the record must be about this workspace.

    Raises:
        Invalid, Refused, Limit: As `decode`; or the record is not where it belongs.
    """
    conflict = decode_conflict(data, at=path)
    if paths.conflict_path(conflict.uri, conflict.digest, sharded) != path:
        raise Invalid("this conflict record belongs at another path", at=f"{path}:1", next="Delete the file.")
    is_settings = is_settings_uri(conflict.uri)
    home = conflict.uri.split("/", 3)[2] if is_settings else workspace_of(conflict.uri)
    if workspace is not None and home not in (None, workspace):
        raise Invalid("this conflict record is about another workspace", at=f"{path}:1", next="Delete the file.")
    return conflict


def read_mapping(data: bytes, at: str) -> Mapping[str, Json]:
    """The mapping in a YAML file from any author. The strict parser reads canonical bytes; the guard reads all others.

    Args:
        at: The file, for errors.

    Raises:
        Invalid: The file is not YAML, or not a mapping.
        Refused: The guard does not accept it (`kgd.codec.guard`).
        Limit: It is too large, is nested too deeply, or has too many events.
    """
    if len(data) <= NODE_BYTES:
        with suppress(NotCanonical, UnicodeDecodeError):
            values = canonical.load(data.decode())
            if len(data) > canonical.FEW_BYTES and canonical.count_events(values) > canonical.MAX_EVENTS:
                raise _too_many(at)
            return values
    from kgd.codec import guard  # ruamel costs 60 ms to import; canonical files never need it

    return guard.read(data, at)


def _too_many(at: str) -> Limit:
    return Limit(f"a file has at most {canonical.MAX_EVENTS} YAML events", at=at, next="Split it into several nodes.")


def node_of(values: Json, at: str) -> Node:
    """The node that is one entry of a larger file.

    Raises:
        Invalid, Limit: The values are not a node.
    """
    try:
        return _node(_map(values, "nodes"))
    except KgdError as error:
        error.at = f"{at}:1"
        raise


def shape_of(node: Node) -> dict[str, Json]:
    """The values of a node in the shape that `canonical.dump` writes."""
    values = fields.plain(node)
    if "relations" in values:
        values["relations"] = [Ordered({**r, "target": Quoted(r["target"])}) for r in values["relations"]]
    if "source" in values:
        values["source"] = Ordered(values["source"])
    return values


def _encoded(values: Mapping[str, Json], at: str) -> bytes:
    try:
        canonical.check_keys(values, at)
        data = canonical.dump(values).encode()
    except KgdError as error:
        error.at = error.at or at
        raise
    _bounded(data, NODE_BYTES, at)
    if len(data) > canonical.FEW_BYTES and canonical.count_events(values) > canonical.MAX_EVENTS:
        raise _too_many(at)
    return data


def _node(values: Mapping[str, Json]) -> Node:
    if "uri" not in values:
        raise Invalid("a node needs a 'uri'", at="uri")
    given = {name: _READERS[name](value, name) for name, value in values.items() if name in _READERS}
    return Node(**given, others=_others(values, _READERS))


def _relations(values: list[Json]) -> Iterator[Relation]:
    for number, value in enumerate(values):
        try:
            yield _relation(value)
        except KgdError as error:
            error.at = f"relations/{number}/{error.at}"
            raise


def _relation(value: Json) -> Relation:
    shape = _map(value, "relation")
    if not shape.get("type") or not shape.get("target"):
        raise Invalid("a relation needs a type and a target", at="relation")
    weight = shape.get("weight")
    return Relation(
        _text(shape["type"], "type"),
        _uri(shape["target"], "target"),
        1.0 if weight is None else weight,
        _data(shape.get("data"), "data"),
        _others(shape, RELATION_FIELDS),
    )


def _source(value: Json, field: str) -> Source | None:
    if value is None:
        return None
    shape = _map(value, field)
    if shape.get("type") is None or shape.get("id") is None:
        raise Invalid("a source needs a type and an id", at="source")
    return Source(_text(shape["type"], "source"), _text(shape["id"], "source"), _others(shape, SOURCE_FIELDS))


def _others(values: Mapping[str, Json], known: Collection[str]) -> Mapping[str, Json]:
    """The keys that this version does not know."""
    others = fields.others_in(values, known)
    for key in others:
        canonical.check_keys({key: others[key]}, key)
    return others


def _conflict(values: Mapping[str, Json]) -> Conflict:
    others = _others(values, RECORD_FIELDS)
    check_others(others, RECORD_FIELDS)
    disputed: dict[str, FieldConflict] = {}
    for name, value in _map(values.get("fields"), "fields").items():
        shape = _map(value, "fields")
        _known(shape, ("base", "sides", "round"), "a field in conflict", at="fields")
        sides = _list(shape.get("sides"), "fields")
        round = shape.get("round", 0)
        if type(round) is not int or round < 0:
            raise Invalid("'round' must be an integer, 0 or greater", at="fields")
        if name in (PLACE, TWIN):
            for side in sides:
                _uri(side, "fields")
        disputed[name] = FieldConflict(shape.get("base"), tuple(sorted(sides, key=canonical_json)), round)
    shown = _map(values.get("shown"), "shown")
    _known(shown, tuple(disputed), "this conflict", at="shown")
    for name, index in shown.items():
        if type(index) is not int or not 0 <= index < len(disputed[name].sides):
            raise Invalid("'shown' must give, per field, the index of one of its sides, from 0", at="shown")
    if not disputed:
        raise Invalid("a conflict record needs at least one field", at="fields")
    return Conflict(_conflict_uri(values.get("uri")), disputed, shown, others)


def _conflict_uri(value: Json) -> Uri:
    """A node's URI, or the URI of the workspace's settings."""
    if isinstance(value, str) and is_settings_uri(value):
        return Uri(value)
    return _uri(value, "uri")


def _known(shape: Mapping[str, Json], names: Iterable[str], what: str, *, at: str = "") -> None:
    for name in shape:
        if name not in names:
            raise Invalid(f"{what} has no field '{name[:60]}'", at=at or name, next=_did_you_mean(name, names))


def _did_you_mean(name: str, names: Iterable[str]) -> str:
    from difflib import get_close_matches  # needed only for this hint

    close = get_close_matches(name.lower(), list(names), 1)
    known = ", ".join(names)[:160]
    return f"Did you mean '{close[0]}'?" if close else f"Its fields are {known}; put other values into 'data'."


def _text(value: Json, field: str) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    raise Invalid(f"'{field}' must be text", at=field, next="Put the value in double quotes.")


def _uri(value: Json, field: str) -> Uri:
    if isinstance(value, str):
        try:
            return checked_uri(value)
        except KgdError as error:
            error.at = field
            raise
    raise Invalid("a node needs a 'uri'" if value is None else f"'{field}' must be a URI", at=field)


def _list(value: Json, field: str) -> list[Json]:
    if value is None or isinstance(value, list):
        return value or []
    raise Invalid(f"'{field}' must be a list", at=field, next="Write each entry on a separate line after '- '.")


def _map(value: Json, field: str) -> Mapping[str, Json]:
    if value is None or isinstance(value, dict):
        return value or {}
    raise Invalid(f"'{field}' must be a mapping", at=field, next="Write 'key: value' lines.")


def _data(value: Json, field: str) -> Mapping[str, Json]:
    data = _map(value, field)
    if data:
        canonical.check_keys(data, field)
    return data


_READ: Mapping[Shape, Callable[[Json, str], Any]] = {
    Shape.URI: _uri,
    Shape.LABEL: _text,
    Shape.LINE: _text,
    Shape.TEXT: _text,
    Shape.NAMES: lambda value, field: tuple([_text(one, field) for one in _list(value, field)]),
    Shape.URIS: lambda value, field: tuple([_uri(one, field) for one in _list(value, field)]),
    Shape.SOURCE: _source,
    Shape.RELATIONS: lambda value, field: tuple(_relations(_list(value, field))),
    Shape.DATA: _data,
}
"""From a value in a file of any author to the field's value."""
_READERS = {row.name: _READ[row.shape] for row in NODE_FIELDS}


def _placed(error: KgdError, values: Mapping[str, Json], data: bytes, at: str) -> KgdError:
    """The error with its place as ``<file>:<line>`` instead of the field in `error.at`."""
    top, _, inside = error.at.partition("/")
    line = getattr(values, "lines", {}).get(top)
    if line is None and (found := re.search(rb'^"?' + re.escape(top.encode("utf-8", "replace")) + rb'"?:', data, re.M)):
        line = data.count(b"\n", 0, found.start()) + 1
    if line is not None and inside:
        number, _, key = inside.partition("/")
        line += _line_in_list(data.split(b"\n")[line:], int(number), key.encode())
    error.at = f"{at}:{line or 1}" if at else top
    return error


def _line_in_list(lines: list[bytes], number: int, key: bytes) -> int:
    """The line number of an entry of a list, or of a key in it; `number` is the line of the list's own key."""
    begins = [at for at, line in enumerate(lines) if line.lstrip().startswith(b"- ")]
    indent = {len(line) - len(line.lstrip()) for line in (lines[at] for at in begins[:1])}
    begins = [at for at in begins if len(lines[at]) - len(lines[at].lstrip()) in indent]
    if number >= len(begins):
        return 0
    for at in range(begins[number], len(lines)):
        if at != begins[number] and (at in begins or lines[at][:1] not in (b" ", b"")):
            break
        if lines[at].lstrip(b" -").startswith(key + b":"):
            return at + 1
    return begins[number] + 1


def _bounded(data: bytes, limit: int, at: str) -> bytes:
    if len(data) > limit:
        raise Limit(
            f"the file would have {whole(len(data), 1024)} KiB; the limit is {limit // 1024} KiB",
            at=at,
            next="Split it into several nodes.",
        )
    return data


ENTRY_KEYS = ("id", "parentType", "parentId", "taskId", "summary", "createdAt")


def encode_entry(entry: LogEntry) -> bytes:
    """The canonical bytes of a changelog entry.

    Raises:
        Invalid, Limit: YAML cannot hold a value.
    """
    values = (entry.id, scheme_of(entry.parent), entry.parent, entry.task, entry.summary, entry.created_at)
    others = {key: entry.others[key] for key in sorted(entry.others)}
    return canonical.dump(dict(zip(ENTRY_KEYS, values, strict=True)) | others).encode()


def decode_entry(data: bytes, *, at: str = "") -> LogEntry:
    """The changelog entry in a file of any author; unknown keys are kept.

    Raises:
        Invalid: A key is missing or not text, or the parent is not a URI.
        Refused, Limit: As for nodes.
    """
    found = read_mapping(data, at)
    for key in ENTRY_KEYS:
        if not isinstance(found.get(key), str):
            raise Invalid(f"a changelog entry needs '{key}', a string", at=f"{at}:1")
    id, _, parent, task, summary, created_at = (str(found[key]) for key in ENTRY_KEYS)
    others = _others(found, ENTRY_KEYS)
    return LogEntry(id, parse(parent), task, summary, created_at, others)


class Lean(NamedTuple):
    """The fields of a node that the graph keeps."""

    uri: Uri
    type: str
    name: str
    summary: str
    tags: tuple[str, ...]
    aliases: tuple[Uri, ...]
    relations: tuple[tuple[str, Uri, float], ...]
    """(type, target, weight) in canonical order."""


_SCHEMES = "|".join(sorted(OWNED - {"dir"}))
_ORDINARY_URI = re.compile(
    rf"(?:{_SCHEMES})://[a-z0-9][a-z0-9-]{{0,62}}(?:/(?!\.\.?(?:/|\Z))[A-Za-z0-9._~:@!$&'()*+,;=-]+)+\Z"
).match

_FILE = re.compile(
    r"uri: (.+)\n"
    r"(?:type: (.+)\n)?"
    r"(?:name: (.+)\n)?"
    r"(?:summary: (.+)\n)?"
    r"(?:tags:\n((?:- .+\n)++))?"
    r"(?:content: (?:\|(-?)\n((?:  \S.*\n)(?:\n*+  [ \t]*+\S.*\n)*+)|(.+)\n))?"
    r'(?:relations:\n((?:- type: .+\n  target: "[^"\\\t\n]+"\n(?:  weight: [01](?:\.[0-9]{1,17})?\n)?)++))?'
    r"(data:\n(?:  .*\n)++)?\Z"
).match
_RELATION = re.compile(r'- type: (.+)\n  target: "(.+)"\n(?:  weight: (.+)\n)?').findall


def checked_uri(text: str) -> Uri:
    """`text` as a URI. Takes 1 us if it has only characters that are never escaped.

    Raises:
        Invalid, Limit: As `kgd.model.uri.parse`.
    """
    return Uri(text) if len(text) <= 255 and text.count("/") < 64 and _ORDINARY_URI(text) else parse(text)


def glance(data: bytes) -> Lean | None:
    """The fields that the graph keeps of the node in `data`; None if `decode` has to read it."""
    read = _read(data)
    return read[0] if read else None


def ordinary(data: bytes, *, with_relations: bool = True) -> Node | None:
    """The node in `data`, without relations in half the time. None if the strict parser or the guard must read it."""
    read = _read(data, with_relations)
    if read is None:
        return None
    known, content, values = read
    relations = tuple([Relation(*relation) for relation in known.relations])
    return Node(known.uri, known.type, known.name, known.summary, content, known.tags, values, None, relations)


def _read(data: bytes, with_relations: bool = True) -> tuple[Lean, str, Mapping[str, Json]] | None:
    """The fields that the graph keeps, the content, and the data."""
    try:
        text = data.decode()
        found = None if len(data) > canonical.FEW_BYTES or canonical.forbidden(text) else _FILE(text)
        if found is None:
            return None
        at, type, name, summary, tags, chomped, block, plain, relations, values = found.groups()
        if plain and not canonical.is_plain(plain):
            return None
        parsed: Mapping[str, Json] = canonical.load(values)["data"] if values else {}
        canonical.check_keys(parsed, "data")
        lines = block.split("\n") if block else ()
        content = plain or "\n".join([line[2:] for line in lines])
        known = _lean(at, type, name, summary, tags, relations if with_relations else None)
        return known, content[:-1] if chomped else content, parsed
    except (NotCanonical, UnicodeDecodeError, KgdError):
        return None


def _lean(
    at: str, type: str | None, name: str | None, summary: str | None, tag_lines: str | None, relation_lines: str | None
) -> Lean:
    if not canonical.is_plain(at):
        raise NotCanonical("the uri")
    node = checked_uri(at)
    tags = tuple(tag_lines[2:-1].split("\n- ")) if tag_lines else ()
    relations = tuple(
        [(label, checked_uri(target), float(weight or 1)) for label, target, weight in _RELATION(relation_lines)]
        if relation_lines
        else ()
    )
    labels = [*tags, *[r[0] for r in relations], *([type] if type else [])]
    if not all(map(_is_label, labels)) or not _is_ascending(tags) or not _is_ascending([r[:2] for r in relations]):
        raise NotCanonical("a label")
    texts = [(name or "", NAME_LIMIT), (summary or "", SUMMARY_LIMIT)]
    if any(text and (len(text) > limit or not canonical.is_plain(text)) for text, limit in texts):
        raise NotCanonical("name or summary")
    if len(tags) > TAGS_LIMIT or len(relations) > RELATIONS_LIMIT or any(not 0 <= r[2] <= 1 for r in relations):
        raise NotCanonical("a limit")
    return Lean(node, type or default_type(node), name or "", summary or "", tags, (), relations)


@lru_cache(maxsize=4096)
def _is_label(text: str) -> bool:
    check_label(text, "label")
    return canonical.is_plain(text)


def _is_ascending(items: Sequence[str] | Sequence[tuple[str, str]]) -> bool:
    return all(map(operator.lt, items, items[1:]))
