"""Git objects: parsing and composing, as pure functions between bytes and values.

Ids are raw 20-byte strings in all rooms below `tools`. Names inside a tree are bytes; a path is text in UTF-8 with
surrogateescape, so that every byte string in git survives a round trip. Names and message of a commit are proper text
(`words`), and its times are valid calendar times (`moment`).
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from kgd.errors import Damaged
from kgd.model.change import Author

ObjectId: TypeAlias = bytes
Entry: TypeAlias = tuple[bytes, ObjectId]
"""The mode as git writes it, and the id: ``(b"100644", ...)``."""
Tree: TypeAlias = dict[bytes, Entry]

FILE = b"100644"
LINK = b"120000"
PLAIN = b"100"
"""Prefix of the mode of every file that is not a link, folder or submodule."""
FOLDER = b"40000"

LAST_MOMENT = 253_402_300_799
"""The last second of the year 9999, in seconds since 1970: the latest time read from a commit."""

_TRAILER = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*): *(.*)").fullmatch
_IDENTITY = re.compile(rb"(.*?) ?<([^<>]*)>(?: (-?\d+)(?: ([+-]\d{4}))?)?").match
_TO_BLANKS = str.maketrans("\n\r\0<>", " " * 5)
_NUMBER = re.compile(rb"\d+").fullmatch
_ENTRIES = re.compile(rb"([^ \0]*+) ([^\0]++)\0(.{20})|(.+)", re.DOTALL).findall
"""Mode, name and id of each entry of a tree; then everything from the first byte that does not fit. One call into C
takes a third of the time of a loop."""
_ENCODINGS = re.compile(
    r"iso[-_]?8859[-_]\d{1,2}|latin-?\d{1,2}|(?:windows-|cp)\d{3,4}|koi8-[rtu]|euc[-_]?(?:jp|kr|cn)|shift[-_]?jis|sjis"
    r"|iso-2022-(?:jp|kr)|gb(?:2312|k|18030)|big5",
    re.IGNORECASE,
).fullmatch

_HASHED_AT_ONCE, _HASHED_IN_PIECES = 2_047, 64 << 10
"""`hashlib` releases the interpreter lock for more bytes than the first; beside many threads, getting it back costs
more than hashing. The second is the largest object that is hashed in such pieces."""


class Object(NamedTuple):
    """An object to be written into the repository."""

    id: ObjectId
    kind: str
    body: bytes


class Signature(NamedTuple):
    """Name, email and time as stored in a commit. `time` is in seconds since 1970; `zone` is text like ``+0200``."""

    name: str
    email: str
    time: int
    zone: str = "+0000"


@dataclass(frozen=True, slots=True)
class Commit:
    id: ObjectId
    tree: ObjectId
    parents: tuple[ObjectId, ...]
    author: Signature
    committer: Signature
    message: str

    @property
    def subject(self) -> str:
        return self.message.split("\n", 1)[0]


def object_id(kind: str, body: bytes) -> ObjectId:
    digest = hashlib.sha1(b"%s %d\0" % (kind.encode(), len(body)))
    piece = _HASHED_AT_ONCE if len(body) <= _HASHED_IN_PIECES else len(body)
    for start in range(0, len(body), piece):
        digest.update(body[start : start + piece])
    return digest.digest()


def make(kind: str, body: bytes) -> Object:
    return Object(object_id(kind, body), kind, body)


EMPTY_TREE = object_id("tree", b"")


def text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def is_text(raw: bytes) -> bool:
    """Whether the bytes are UTF-8."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def words(raw: bytes, encoding: str = "") -> str:
    """Readable text, decoded with the encoding that a commit states, otherwise with UTF-8. Undecodable bytes become
    U+FFFD.

    Only character encodings are allowed: Python has other codecs, which a commit from elsewhere must not select.
    """
    if _ENCODINGS(encoding):
        with contextlib.suppress(UnicodeDecodeError, LookupError):
            return raw.decode(encoding)
    return raw.decode("utf-8", "replace")


def moment(digits: bytes) -> int:
    """Seconds since 1970 of a commit's time field. Earlier times and malformed numbers give 0; times after the year
    9999 give the end of that year."""
    if not _NUMBER(digits):
        return 0
    significant = digits.lstrip(b"0") or b"0"
    return int(significant) if len(significant) < 12 else min(int(significant[:13]), LAST_MOMENT)


def parse_tree(body: bytes) -> Tree:
    """The entries in the order git stores them.

    Raises:
        Damaged: The bytes are not a tree.
    """
    found = _ENTRIES(body)
    if found and found[-1][3]:
        raise Damaged("a tree object is truncated or malformed")
    return {name: (mode, id) for mode, name, id, _ in found}


def tree_body(entries: Mapping[bytes, Entry]) -> bytes:
    """The bytes of a tree. Git sorts folders as if their names ended in a slash."""
    return b"".join([line for _, line in _keyed_lines(entries)])


def _keyed_lines(entries: Mapping[bytes, Entry]) -> list[tuple[bytes, bytes]]:
    return sorted(
        [
            (name + b"/" if mode == FOLDER else name, mode + b" " + name + b"\0" + id)
            for name, (mode, id) in entries.items()
        ]
    )


class TreeLines:
    """The lines of one folder's tree. A later version takes time for the changed entries, and one join of the lines: a
    tenth of the time of `tree_body`."""

    def __init__(self, entries: Mapping[bytes, Entry]) -> None:
        keyed = _keyed_lines(entries)
        self._keys, self._lines = [key for key, _ in keyed], [line for _, line in keyed]

    def body(self) -> bytes:
        return b"".join(self._lines)

    def update(self, entries: Mapping[bytes, Entry], changed: Iterable[bytes]) -> None:
        """Follow the entries, of which those with the changed names may differ."""
        keys, lines = self._keys, self._lines
        for name in changed:
            for key in (name, name + b"/"):  # a file may have become a folder
                at = bisect_left(keys, key)
                if at < len(keys) and keys[at] == key:
                    del keys[at], lines[at]
        for key, line in _keyed_lines({name: entries[name] for name in changed if name in entries}):
            at = bisect_left(keys, key)
            keys.insert(at, key)
            lines.insert(at, line)


def signature(author: Author, when: int) -> Signature:
    """The author of a change as a commit's signature: with the client's name, without characters that git refuses."""
    return Signature(author.signed, author.email, when)


def as_committed(author: Author) -> Author:
    """The author as `Author.of` reads it from their commits."""
    name = Author.of(_clean(author.signed))
    return Author(name.name, _address(author.email), name.client)


def commit_body(
    tree: ObjectId, parents: Iterable[ObjectId], author: Signature, committer: Signature, message: str
) -> bytes:
    """The bytes of a commit. Characters that would break the header or that ``git fsck`` refuses are replaced."""
    lines = [b"tree " + tree.hex().encode()]
    lines += [b"parent " + parent.hex().encode() for parent in parents]
    lines += [b"author " + _identity(author), b"committer " + _identity(committer)]
    words = raw(message.replace("\0", "\ufffd")).rstrip(b"\n")
    return b"\n".join(lines) + b"\n\n" + words + b"\n"


def with_signature(body: bytes, armored: str) -> bytes:
    """A commit with a signature of its bytes, in the header ``gpgsig`` as git stores it."""
    head, _, message = body.partition(b"\n\n")
    return head + b"\ngpgsig " + armored.strip().replace("\n", "\n ").encode() + b"\n\n" + message


def signed_parts(body: bytes) -> tuple[bytes, str]:
    """The bytes of a commit that its signature covers, and the signature; empty if there is none."""
    if b"\ngpgsig" not in body:
        return body, ""
    head, _, message = body.partition(b"\n\n")
    kept, signature, inside = list[bytes](), list[bytes](), b""
    for line in head.split(b"\n"):
        if line.startswith(b" ") and inside:
            line = line[1:]
        else:
            inside, _, line = (
                line.partition(b" ") if line.startswith((b"gpgsig ", b"gpgsig-sha256 ")) else (b"", b"", line)
            )
        if not inside:
            kept.append(line)
        elif inside == b"gpgsig":
            signature.append(line)
    return b"\n".join(kept) + b"\n\n" + message, b"\n".join(signature).decode("ascii", "replace")


def parse_commit(id: ObjectId, body: bytes) -> Commit:
    """Parse a commit written by any program. Unknown headers are skipped; a malformed identity is parsed as far as
    possible.

    Its names and message never contain surrogates.

    Raises:
        Damaged: There is no tree, or an id is malformed.
    """
    head, _, message = body.partition(b"\n\n")
    headers: dict[bytes, list[bytes]] = {}
    for line in head.split(b"\n"):
        key, _, value = line.partition(b" ")
        headers.setdefault(key, []).append(value)
    if b"tree" not in headers:
        raise Damaged("a commit object has no tree", at=id.hex())
    tree, parents = parse_id(headers[b"tree"][0]), tuple(map(parse_id, headers.get(b"parent", ())))
    encoding = headers.get(b"encoding", [b""])[-1].decode("ascii", "replace")
    by, written_by = (_parse_identity(headers.get(key, [b""])[-1], encoding) for key in (b"author", b"committer"))
    return Commit(id, tree, parents, by, written_by, words(message, encoding))


def is_id(digits: str) -> bool:
    return re.fullmatch("[0-9a-f]{40}", digits) is not None


def parse_id(digits: bytes | str) -> ObjectId:
    """The raw id of 40 hex digits.

    Raises:
        Damaged: The argument is anything else.
    """
    shown = digits if isinstance(digits, str) else digits.decode("ascii", "replace")
    if not is_id(shown):
        raise Damaged("this is not an object id")
    return bytes.fromhex(shown)


def trailers(message: str) -> list[tuple[str, str]]:
    """The ``Key: value`` lines of the last paragraph, in order; none if there is only the subject's paragraph."""
    paragraphs = re.split(r"\n(?:[ \t]*\n)+", message.strip("\n"))
    if len(paragraphs) < 2:
        return []
    found = (_TRAILER(line.rstrip()) for line in paragraphs[-1].split("\n"))
    return [(match[1], match[2]) for match in found if match]


def with_trailers(message: str, added: Iterable[tuple[str, str]]) -> str:
    """The message with trailers as a separate paragraph, so that the caller's text is never read as a trailer."""
    lines = [f"{key}: {' '.join(value.split())}" for key, value in added]
    return message.rstrip() + "\n\n" + "\n".join(lines) + "\n" if lines else message.rstrip() + "\n"


def _identity(who: Signature) -> bytes:
    return raw(f"{_clean(who.name) or 'unknown'} <{_address(who.email)}> {max(0, who.time)} {who.zone}")


def _address(email: str) -> str:
    return _clean(email).replace(" ", "")


def _clean(part: str) -> str:
    return part.translate(_TO_BLANKS).strip(" .,:;\"'\\")


def _parse_identity(value: bytes, encoding: str) -> Signature:
    found = _IDENTITY(value)
    if not found:
        return Signature(words(value, encoding), "", 0)
    zone = found[4].decode() if found[4] else "+0000"
    return Signature(words(found[1], encoding), words(found[2], encoding), moment(found[3] or b""), zone)
