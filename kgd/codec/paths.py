"""The path of a URI's file, and the URI of a path (CONTRACT section 2, docs/format.md "Paths").

    concept://ws/services/auth        nodes/concept/services/auth.yaml
    entity://ws/Auth Service          nodes/entity/74/Auth Service.yaml          always sharded
    https://example.com/a/b           nodes/https/example.com/a/3e/b.yaml        always sharded
    https://example.com/a?b           nodes/https/example.com/<shard>/a%3Fb~<hash>.yaml

Names are literal; characters that some file system rejects are written ``%XX``, so undoing the escapes gives the name.
Only a cut name, or an external URI that its path cannot spell, has a hash; then only the file's own `uri` tells. Paths
are injective within one workspace and do not contain its id.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from kgd.errors import Invalid, KgdError
from kgd.model.uri import (
    DIR_ROOT,
    MAX_SEGMENTS,
    OWNED,
    RESERVED,
    Uri,
    build,
    decode_segment,
    encode_segment,
    percent_encoded,
    scheme_of,
    workspace_of,
)

ALWAYS_SHARDED = frozenset({"entity", "tag"})
"""Owned schemes with machine-made names; external URIs are sharded as well."""

NAME_BYTES = 200
"""Longer names, after escaping, are cut: file systems end at 255; `.yaml` and temporary suffixes must fit."""

PATH_BYTES = 1000
"""Longer paths are replaced by a hashed one: macOS ends at 1,024."""

EXTERNAL_BYTES = 200
"""A longer external URI gets a hash suffix."""

_HASHED = re.compile(r"~[0-9a-f]{16}\Z")
_KEPT = NAME_BYTES - 17

# Always escaped: controls, characters that Windows forbids, the escape itself, and invisible characters: some file
# systems ignore those when they compare names, so that `.g<ZWNJ>it` would be `.git`.
_ESCAPED = re.compile(
    '[\x00-\x1f\x7f-\x9f"%*/:<>?\\\\|\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\uffff\udc80-\udcff'
    "\U000e0000-\U000e0fff]"
)
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$) *(?:\.|\Z)", re.I)
_YAML_FOLDER = re.compile(r"\.yaml\Z", re.I)

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,31}\Z").match

# The ordinary URI, found in one match: plain ASCII names that no rule below affects.
_ORDINARY = re.compile(
    r"([a-z]+)://[a-z0-9-]+/((?:(?!(?i:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:[./]|\Z))"
    r"(?:[A-Za-z0-9_-](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?)(?:/|\Z))+)\Z"
).match


def path_of(uri: Uri, sharded: frozenset[str] = frozenset()) -> str:
    """The path of the node's file. `sharded` is the list in `kgd.yaml`.

    Never leaves ``nodes/``, never holds ``..``, always valid UTF-8. About 1 us for ordinary names.
    """
    ordinary = _ORDINARY(uri) if len(uri) <= NAME_BYTES and ".yaml/" not in uri.lower() else None
    if ordinary is not None:
        scheme, path = ordinary.groups()
        if scheme in OWNED and path[-1] != "/":
            if scheme not in ALWAYS_SHARDED and scheme not in sharded:
                return f"nodes/{scheme}/{path}.yaml"
            folder, slash, last = path.rpartition("/")
            return f"nodes/{scheme}/{folder}{slash}{shard(last.encode())}/{last}.yaml"
    return _unusual_path(uri, sharded)


@lru_cache(maxsize=8192)  # a change asks for the path of each node some ten times, and this takes 25 us
def _unusual_path(uri: Uri, sharded: frozenset[str]) -> str:
    return "/".join(["nodes", *_names(uri, sharded)]) + ".yaml"


def uri_of(path: str, workspace: str, sharded: frozenset[str] = frozenset()) -> Uri | None:
    """The URI of the node at `path`; None if a name was hashed, so that only the file's own `uri` tells.

    Raises:
        Invalid: No node has this path.
    """
    scheme, names = _node_names(path)
    if any(map(_HASHED.search, names)):
        return None
    try:
        uri = _uri_of_names(scheme, names, workspace, sharded)
    except KgdError as error:
        raise Invalid("no node has this path", at=path, next=error.message) from None
    if path_of(uri, sharded) != path:
        raise Invalid("no node has this path", at=path, next=f"{uri[:120]} is at {path_of(uri, sharded)[:120]}.")
    return uri


def check_place(uri: Uri, path: str, workspace: str, sharded: frozenset[str] = frozenset()) -> None:
    """Check that the node's file belongs to this path of this workspace.

    Raises:
        Invalid: It belongs elsewhere, or to another workspace.
    """
    if path_of(uri, sharded) != path:
        right = path_of(uri, sharded)
        raise Invalid(f"the file says it is {uri}, which belongs in {right}", at=f"{path}:1", next="Move the file.")
    if workspace_of(uri) not in (None, workspace):
        raise Invalid(
            f"the file says it is {uri}, a node of another workspace",
            at=f"{path}:1",
            next=f"Write '{workspace}' as its workspace, or remove the file.",
        )


def is_node_path(path: str) -> bool:
    """Whether a node may have this path, judged by its names; editors' temporary files do not qualify."""
    try:
        _node_names(path)
    except KgdError:
        return False
    return True


def is_cut(path: str) -> bool:
    """Whether a name in the path holds a hash, so that the path does not give its URI."""
    return any(map(_HASHED.search, path.removesuffix(".yaml").split("/")))


def conflict_path(uri: Uri, digest: str, sharded: frozenset[str] = frozenset()) -> str:
    """The path of a conflict record: below a folder named like the node's file."""
    return "/".join(["conflicts", *_names(uri, sharded, last_is_folder=True), digest + ".yaml"])


def log_path(parent: Uri, entry: str, sharded: frozenset[str] = frozenset()) -> str:
    """The path of a changelog entry (a ULID) of `parent`. Always sharded, by the parent's last segment."""
    names = _names(parent, sharded | {scheme_of(parent)}, last_is_folder=True)
    return "/".join(["log", *names, entry + ".yaml"])


def shard(segment: bytes) -> str:
    """The shard folder of a decoded segment."""
    return hashlib.sha256(segment).hexdigest()[:2]


def escape_name(raw: bytes, *, folder: bool) -> str:
    """The name of a file (before ``.yaml``) or folder for one decoded segment; `decode_segment` undoes it."""
    text = raw.decode("utf-8", "surrogateescape")
    if not unicodedata.is_normalized("NFC", text):
        text = raw.decode("ascii", "surrogateescape")
    ends = {0, len(text) - 1} if text[0] in ". " or text[-1] in ". " else set()
    marked = {i for i in ends if text[i] in ". "}
    if _DEVICE.match(text):
        marked.add(0)
    if text[:4].lower() == "git~":
        marked.add(3)
    if _HASHED.search(text):
        marked.add(len(text) - 17)
    if folder and _YAML_FOLDER.search(text):
        marked.add(len(text) - 5)
    if not marked and not _ESCAPED.search(text):
        return text
    return "".join(percent_encoded(c) if i in marked or _ESCAPED.match(c) else c for i, c in enumerate(text))


def _names(uri: Uri, sharded: frozenset[str], *, last_is_folder: bool = False) -> list[str]:
    """The scheme's folder, the folders, the shard if there is one, and the last name."""
    scheme = scheme_of(uri)
    top = escape_name(scheme.encode(), folder=True)
    if scheme in OWNED:
        names = _owned_names(uri, last_is_folder)
        decoded_last = decode_segment(uri.rpartition("/")[2])
        shards = [shard(decoded_last)] if scheme in ALWAYS_SHARDED or scheme in sharded else []
    else:
        names, shards = _external_names(uri, last_is_folder)
    made = [top, *names[:-1], *shards, names[-1]]
    if len("/".join(made).encode()) <= PATH_BYTES:
        return made
    last = names[-1] if _HASHED.search(names[-1]) else _cut(names[-1], uri)
    return [top, shard(uri.encode()), last]


def _owned_names(uri: Uri, last_is_folder: bool) -> list[str]:
    start = uri.index("/", uri.index("//") + 2) + 1
    encoded = uri[start:].split("/")
    names = []
    for i, segment in enumerate(encoded):
        name = escape_name(decode_segment(segment), folder=last_is_folder or i < len(encoded) - 1)
        if i == 0 and segment == "%5F":
            name = segment  # a top directory named like the root's own URI
        start += len(segment)
        names.append(_cut(name, uri[:start]) if len(name.encode()) > NAME_BYTES else name)
        start += 1
    return names


def _external_names(uri: Uri, last_is_folder: bool) -> tuple[list[str], list[str]]:
    """Host and path unchanged if they spell the URI exactly, else with a hash of the URI."""
    _, _, rest = uri.partition(":")
    segments = rest[2:].split("/") if rest.startswith("//") else []
    if 2 <= len(segments) <= MAX_SEGMENTS and len(uri.encode()) <= EXTERNAL_BYTES and all(map(_is_canonical, segments)):
        raw = [decode_segment(s) for s in segments]
        names = [escape_name(s, folder=True) for s in raw[:-1]] + [escape_name(raw[-1], folder=last_is_folder)]
        if all(len(n.encode()) <= NAME_BYTES for n in names):
            return names, [shard(raw[-1])]
    host, folders, last = _readable(rest)
    name = _cut(escape_name(last.encode(), folder=last_is_folder), uri)
    return [escape_name(s, folder=True) for s in (host, *folders)] + [name], [shard(last.encode())]


def _readable(rest: str) -> tuple[bytes, Sequence[bytes], str]:
    """Host, folders and the last segment with query and fragment, for people; the hash distinguishes URIs."""
    host, last = b"_", rest
    if rest.startswith("//"):
        authority = re.split("[/?#]", rest[2:], maxsplit=1)[0]
        last = rest[2 + len(authority) :].removeprefix("/")
        host = authority.encode() if _is_canonical(authority) and len(authority.encode()) <= 60 else b"_"
    path = re.split("[?#]", last, maxsplit=1)[0]
    folders = path.split("/")[:-1]
    if len(folders) < MAX_SEGMENTS and all(_is_canonical(f) and len(f.encode()) <= 60 for f in folders):
        return host, [decode_segment(f) for f in folders], last[len("/".join([*folders, ""])) :] or "_"
    return host, [], last or "_"


def _is_canonical(segment: str) -> bool:
    try:
        return encode_segment(decode_segment(segment)) == segment
    except KgdError:
        return False


def _cut(name: str, uri: str) -> str:
    """At most 200 bytes: whole characters and whole escapes of `name`, ``~`` and 16 hex digits of `uri`'s SHA-256."""
    kept = name.encode()[:_KEPT].decode("utf-8", "ignore")
    kept = re.sub(r"%[0-9A-F]?\Z", "", kept)
    return f"{kept}~{hashlib.sha256(uri.encode()).hexdigest()[:16]}"


def _node_names(path: str) -> tuple[str, list[str]]:
    """The scheme and the names below it, each valid for `escape_name`.

    Raises:
        Invalid: It is not below ``nodes/<scheme>/``, does not end in ``.yaml``, or has a name that kgd never writes.
    """
    parts = path.removesuffix(".yaml").split("/")
    if len(parts) < 3 or parts[0] != "nodes" or not path.endswith(".yaml"):
        raise Invalid("a node's file is nodes/<scheme>/<path>.yaml", at=path)
    for i, name in enumerate(parts[1:], 2):
        known = name and (_HASHED.search(name) or _is_escaped(name, folder=i < len(parts)))
        if not known or len(name.encode("utf-8", "surrogateescape")) > NAME_BYTES:
            raise Invalid("no node has this file name", at=path)
    scheme = decode_segment(parts[1]).decode("utf-8", "surrogateescape")
    if not _SCHEME(scheme) or scheme == RESERVED:
        raise Invalid("no node has this scheme", at=path)
    return scheme, parts[2:]


def _is_escaped(name: str, *, folder: bool) -> bool:
    try:
        return name == "%5F" or escape_name(decode_segment(name), folder=folder) == name
    except (KgdError, UnicodeError):
        return False


def _uri_of_names(scheme: str, names: list[str], workspace: str, sharded: frozenset[str]) -> Uri:
    if scheme not in OWNED or scheme in ALWAYS_SHARDED or scheme in sharded:
        if len(names) < 2:
            raise Invalid("the shard folder is missing")
        names = [*names[:-2], names[-1]]
    segments = [decode_segment(n) for n in names]
    if scheme not in OWNED:
        return Uri(f"{scheme}://{'/'.join(map(encode_segment, segments))}")
    if scheme == "dir" and names == [DIR_ROOT]:
        segments = []
    return build(scheme, workspace, segments)
