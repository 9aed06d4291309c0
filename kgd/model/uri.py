"""URIs, the unique names of nodes: parsing, building and comparing.

Two forms (docs/format.md, section 2)::

    <scheme>://<workspace>/<segment>(/<segment>)*    owned schemes; bijective with paths in git
    anything else with a scheme                      an external resource, kept verbatim

A `Uri` is a plain ``str`` that passed `parse`. It is not a class of its own, because the graph holds hundreds of
thousands of URIs. Every function takes time linear in the length of the URI.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from enum import IntEnum
from functools import lru_cache
from typing import NewType

from kgd.errors import Invalid, Limit

Uri = NewType("Uri", str)
"""A canonical URI: exactly one such string per node."""

OWNED = frozenset(
    """
    concept file dir entity atom molecule task decision pattern gotcha insight document chunk thread message symbol tag
    """.split()
)
"""Schemes whose form and files kgd defines."""

CODE_TREE = ("file", "dir")
"""Schemes of nodes that come from the code tree itself."""
IN_CODE = (*CODE_TREE, "symbol")
"""Schemes of nodes that come from the code tree, or from the content of its files."""
IN_SUMMARY = frozenset(
    ("file_type", "extension", "size_bytes", "line_count", "node_type", "file_count", "total_size", "depth")
)
"""Keys of the data of a file or directory that its summary repeats, or that its path shows."""
DIRECTORY_TYPE = "concept"
"""The type label of directories; as a filter it selects only concepts."""

RESERVED = "kgd"
"""Scheme of kgd's own resources (status, conflicts, jobs); never the URI of a node."""

MAX_BYTES = 2048
MAX_SEGMENTS = 64
MAX_SEGMENT_BYTES = 255

DIR_ROOT = "_"
"""`dir://<ws>/_` is the root of the code tree; a top directory that is itself named `_` is written `%5F`."""

_WORKSPACE = re.compile(r"[a-z0-9][a-z0-9-]{0,62}\Z").match
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,31}\Z").match
_ESCAPED_ASCII = frozenset('"#%<>?[\\]^{|}` /')
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_BETWEEN_WORDS = re.compile(r"[\W_]+")


def parse(text: str) -> Uri:
    """The canonical URI in `text`.

    Raises:
        Invalid: The text is not canonical; the message gives the canonical spelling if there is one.
        Limit: The text is longer than 2,048 bytes or has more than 64 segments.
    """
    scheme, rest = _split(text)
    if scheme == RESERVED:
        raise Invalid(
            "a kgd:// URI names a resource of kgd itself, not a node",
            at="uri",
            next="Write the URI of a node, as concept://<workspace>/<name>.",
        )
    if scheme not in OWNED:
        return _parse_external(text, rest)
    workspace, slash, path = rest.partition("/")
    if not is_workspace_id(workspace):
        raise Invalid(
            f"'{workspace[:70]}' is not a workspace id",
            at="uri",
            next=f"Write {scheme}://<workspace>/<path>; an id may contain only lower-case letters, digits and dashes.",
        )
    if not slash or not path:
        raise Invalid(
            "a URI needs at least one segment after the workspace",
            at="uri",
            next=f"Write {scheme}://{workspace}/<name>.",
        )
    encoded = path.split("/")
    built = build(
        scheme, workspace, [decode_segment(s) for s in encoded] if scheme != "dir" else _dir_segments(encoded)
    )
    if built != text:
        raise Invalid(f"the canonical spelling of this URI is {built[:200]}", at="uri", next=f"Write {built[:200]}.")
    return built


def build(scheme: str, workspace: str, segments: list[bytes]) -> Uri:
    """The URI of a path given as raw bytes per segment. Only `dir` allows an empty list: the root.

    Raises:
        Invalid: A segment is empty, ``.`` or ``..``, or the scheme is not one of kgd's.
        Limit: There are too many segments, or a segment is too long.
    """
    if scheme not in OWNED:
        raise Invalid(f"'{scheme[:40]}' is not a scheme of kgd", at="uri")
    if len(segments) > MAX_SEGMENTS:
        raise Limit(f"a URI has at most {MAX_SEGMENTS} segments; this one has {len(segments)}", at="uri")
    encoded = [encode_segment(s) for s in segments]
    if scheme == "dir":
        if not encoded:
            encoded = [DIR_ROOT]
        elif encoded[0] == DIR_ROOT:
            encoded[0] = "%5F"
    if not encoded:
        raise Invalid("a URI needs at least one segment after the workspace", at="uri")
    uri = f"{scheme}://{workspace}/{'/'.join(encoded)}"
    if len(uri.encode()) > MAX_BYTES:
        raise Limit(f"a URI has at most {MAX_BYTES} bytes", at="uri")
    return Uri(uri)


def from_path(scheme: str, workspace: str, path: bytes | str) -> Uri:
    """The URI of a slash-separated path; `str` paths come from the operating system (surrogateescape)."""
    try:
        raw = path if isinstance(path, bytes) else path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise Invalid("a name cannot contain an unpaired surrogate") from None
    return build(scheme, workspace, raw.split(b"/") if raw else [])


def is_text_name(path: str) -> bool:
    """Whether the name is valid text, which URIs, indexes and answers require."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


@lru_cache(20_000)
def uri_at(scheme: str, workspace: str, path: str) -> Uri | None:
    """Like `from_path`, ignoring trailing slashes; None if no URI can have the path. Results are cached, because paths
    recur."""
    try:
        return from_path(scheme, workspace, path.rstrip("/"))
    except (Invalid, Limit):
        return None


def scheme_of_type(type: str) -> str:
    """The scheme of a new node of a type: the type, if kgd defines that scheme and the code tree does not use it;
    otherwise ``concept``."""
    return type if type in OWNED and type not in CODE_TREE else "concept"


def scheme_of(uri: str) -> str:
    return uri[: uri.index(":")]


def is_owned(uri: str) -> bool:
    return uri[: uri.index(":")] in OWNED


def is_external(text: str) -> bool:
    """Whether user input is meant as an external URI rather than a path with a colon.

    A scheme with a dot is a file name unless ``//`` follows: ``main.py:12`` is not a URI, ``x.y://h/a`` is one.
    """
    scheme, colon, rest = text.partition(":")
    if not colon or not rest or scheme in OWNED or "/" in scheme:
        return False
    return "." not in scheme or (rest.startswith("//") and _SCHEME(scheme) is not None)


def workspace_of(uri: str) -> str | None:
    """The workspace id in an owned URI; None for an external resource, which has no owner."""
    scheme, _, rest = uri.partition(":")
    return rest.split("/", 3)[2] if scheme in OWNED else None


def segments_of(uri: str) -> list[bytes]:
    """The decoded segments of an owned URI; an empty list for the root of the code tree."""
    encoded = uri.split("/")[3:]
    return _dir_segments(encoded) if scheme_of(uri) == "dir" else [decode_segment(s) for s in encoded]


def path_of(uri: str) -> str:
    """The decoded path of an owned URI, as the operating system spells it (surrogateescape)."""
    return b"/".join(segments_of(uri)).decode("utf-8", "surrogateescape")


def slug(text: str) -> str:
    """The words of a text in lower case, joined by dashes: the form in which kgd makes names from texts."""
    return _BETWEEN_WORDS.sub("-", text.lower()).strip("-")


def name_of(uri: str) -> str:
    """A readable name for a node without a name: the last segment, or the whole URI if it is external."""
    if not is_owned(uri):
        return uri
    segments = segments_of(uri)
    return segments[-1].decode("utf-8", "replace") if segments else "/"


def namespace_of(uri: str) -> str:
    """The path without its last segment, as canonical text; the empty string at the top."""
    if not is_owned(uri):
        return ""
    return "/".join(uri.split("/")[3:-1])


def is_workspace_id(text: str) -> bool:
    return _WORKSPACE(text) is not None


def settings_uri(workspace: str) -> Uri:
    """The subject of conflicts about `kgd.yaml`: a resource of kgd itself, never a node."""
    return Uri(f"{RESERVED}://{workspace}/settings")


def is_settings_uri(uri: str) -> bool:
    return uri.startswith(f"{RESERVED}://") and uri.endswith("/settings") and is_workspace_id(uri[6:-9])


def parse_subject(text: str) -> Uri:
    """Parse the subject of a conflict: a node, or the settings of a workspace.

    Raises:
        Invalid, Limit: As `parse` does.
    """
    return Uri(text) if is_settings_uri(text) else parse(text)


def workspace_id_from(text: str) -> str:
    """A workspace id made from any name, such as a repository's; never empty."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    made = re.sub(r"[^a-z0-9]+", "-", ascii_text).strip("-")[:63].strip("-")
    return made or "workspace"


def collision_key(uri: str) -> str:
    """A key that is equal for URIs whose names are equal on some file systems (NFKC, case-folded)."""
    if not is_owned(uri) or is_own_key(uri):
        return uri
    path = path_of(uri).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return f"{scheme_of(uri)}://{workspace_of(uri)}/{unicodedata.normalize('NFKC', path).casefold()}"


def is_own_key(uri: str) -> bool:
    """Whether a URI is certainly its own collision key, found without computing the key (0.1 us instead of 5). The URI
    of the root of the code tree is not."""
    return uri.isascii() and uri.islower() and "%" not in uri and not uri.startswith("dir:")


def encode_segment(raw: bytes) -> str:
    """The canonical spelling of a name that git can hold.

    Raises:
        Invalid: The name is empty, ``.`` or ``..``, or contains NUL, which a tree entry cannot.
        Limit: The name has more than 255 bytes.
    """
    if raw in (b"", b".", b".."):
        raise Invalid("a segment may not be empty, '.' or '..'", at="uri")
    if b"\0" in raw:
        raise Invalid("a segment may not contain NUL", at="uri")
    if len(raw) > MAX_SEGMENT_BYTES:
        raise Limit(f"a segment has at most {MAX_SEGMENT_BYTES} bytes; this one has {len(raw)}", at="uri")
    text = raw.decode("utf-8", "surrogateescape")
    composed = unicodedata.is_normalized("NFC", text)
    return "".join(c if _is_plain(c, composed) else percent_encoded(c) for c in text)


def decode_segment(text: str) -> bytes:
    """The bytes of an encoded segment.

    Raises:
        Invalid: A ``%`` is not followed by two upper-case hex digits, or the text is not valid Unicode.
    """
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raise Invalid("the URI is not valid Unicode text", at="uri") from None
    if b"%" not in raw:
        return raw
    head, *parts = raw.split(b"%")
    out = [head]
    for part in parts:
        digits = part[:2]
        if len(digits) != 2 or not re.fullmatch(rb"[0-9A-F]{2}", digits):
            raise Invalid(
                "'%' must be followed by two upper-case hex digits", at="uri", next="Write a literal % as %25."
            )
        out += [bytes([int(digits, 16)]), part[2:]]
    return b"".join(out)


def _is_plain(char: str, composed: bool) -> bool:
    code = ord(char)
    if code < 0x80:
        return code >= 0x20 and code != 0x7F and char not in _ESCAPED_ASCII
    return composed and code > 0x9F and not 0xD800 <= code <= 0xDFFF


def percent_encoded(char: str) -> str:
    """The bytes of a character as ``%XX``."""
    return "".join(f"%{b:02X}" for b in char.encode("utf-8", "surrogateescape"))


def _dir_segments(encoded: list[str]) -> list[bytes]:
    return [] if encoded == [DIR_ROOT] else [decode_segment(s) for s in encoded]


def _split(text: str) -> tuple[str, str]:
    scheme, colon, rest = text.partition(":")
    if not colon or not _SCHEME(scheme):
        raise Invalid("this is not a URI", at="uri", next="Write <scheme>://<workspace>/<path> or a full https URL.")
    if scheme in OWNED and not rest.startswith("//"):
        raise Invalid("this is not a URI", at="uri", next=f"Write {scheme}://<workspace>/<path>.")
    return scheme, rest[2:] if scheme in OWNED else rest


def _parse_external(text: str, rest: str) -> Uri:
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise Limit(f"a URI has at most {MAX_BYTES} bytes", at="uri")
    if not rest.strip("/") or _CONTROL.search(text) or any(c.isspace() or 0xD800 <= ord(c) <= 0xDFFF for c in text):
        raise Invalid("an external URI needs text after its scheme, without blanks or control characters", at="uri")
    return Uri(text)


def is_of_types(uri: str, type: str, types: Collection[str]) -> bool:
    """Whether a type filter selects a node: by its type, or by its scheme for `file` and `dir`."""
    scheme = uri.partition("://")[0]
    if scheme in CODE_TREE and scheme in types:
        return True
    return type in types and not (scheme == "dir" and type == DIRECTORY_TYPE)


class Lane(IntEnum):
    """Kinds of text that search ranks separately, so that many texts of one kind never crowd out another kind.

    Notes are nodes that people and agents wrote; sources are ingested documents and conversations; code is the text
    of the code tree. A stored node without any text is not in a lane."""

    NOTES = 0
    SOURCES = 1
    CODE = 2
    NONE = 3


KNOWLEDGE = (Lane.NOTES, Lane.SOURCES)
"""The lanes in the first list of an answer, in order."""
LANES = (*KNOWLEDGE, Lane.CODE)

_SOURCES = frozenset({"document", "chunk", "thread", "message"})


def lane_of(uri: Uri, origin: str = "") -> Lane:
    """The lane of a text. `origin` is the file of the code tree that the text was read from; it is empty for a stored
    node."""
    if origin:
        return Lane.CODE
    return Lane.SOURCES if scheme_of(uri) in _SOURCES else Lane.NOTES
