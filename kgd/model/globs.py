"""Path patterns: the nodes that a scope or a policy rule covers (docs/scopes.md).

    /services/**      /services and everything below it, under every scheme of kgd
    /services/*/api   `*` does not cross a segment boundary
    /https/example.com/docs/**       an external resource is /<scheme>/<host>/<path>

Patterns and paths are lists of canonical segments. Matching does not decode, fold or resolve anything, so a path cannot
bypass a glob by another spelling.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from kgd.errors import Invalid, KgdError, Limit
from kgd.model.uri import MAX_BYTES, MAX_SEGMENTS, decode_segment, encode_segment, is_owned, scheme_of

ANY = "**"
"""In a glob: any number of segments. In a path: an unknown place below that point."""

Place = tuple[str, ...]
"""The canonical path of a node as segments; the root of the code tree has none."""


@dataclass(frozen=True, slots=True)
class Glob:
    """A pattern over canonical paths.

    Raises:
        Invalid: The pattern could never cover a node; the message gives the reason.
        Limit: The pattern is longer than a URI may be.
    """

    text: str
    segments: Place = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "segments", _segments(self.text))

    def covers(self, place: Sequence[str]) -> bool:
        """Whether the glob covers the path. Takes time linear in the number of segments of both."""
        return _match(self.segments, place)

    def within(self, other: Glob) -> bool:
        """Whether `other` covers every path that this glob covers.

        Each wildcard is treated as a character that no path contains: only a wildcard of `other` matches it, and then
        also matches everything that it stands for.
        """
        return _match(other.segments, self.segments)

    def __str__(self) -> str:
        return self.text


def place_of(uri: str) -> Place:
    """The canonical path of a canonical URI.

    An external resource is /<scheme>/<host>/<path>, without query and fragment. If its path is ambiguous (`..`, `%2e`,
    `//`, an escaped slash), it is treated as an unknown place below its host, which only a glob for the whole host
    covers.
    """
    scheme = scheme_of(uri)
    if is_owned(uri):
        encoded = uri.split("/")[3:]
        if scheme == "dir":  # the root is `_`, and a folder named `_` is `%5F`
            return () if encoded == ["_"] else ("_" if encoded[0] == "%5F" else encoded[0], *encoded[1:])
        return tuple(encoded)
    rest = re.split("[?#]", uri.partition(":")[2], maxsplit=1)[0]
    host, _, path = rest.removeprefix("//").partition("/")
    below = path.split("/") if path else []
    if below and not below[-1]:
        below.pop()
    if _leads_elsewhere(host):
        return (scheme, ANY)
    return (scheme, host, ANY) if any(map(_leads_elsewhere, below)) else (scheme, host, *below)


def _leads_elsewhere(segment: str) -> bool:
    plain = unquote(unquote(segment))
    return plain in ("", ".", "..") or "/" in plain or "\\" in plain or segment == ANY


def _segments(text: str) -> Place:
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise Limit(f"a path pattern has at most {MAX_BYTES} bytes", at="paths")
    if not text.startswith("/"):
        raise _refused(text, "a path pattern begins with /", f"Write /{text[:80].lstrip('/')}.")
    if text == "/":
        raise _refused(text, "/ on its own covers nothing", "Write /** for everything.")
    segments = text[1:].split("/")
    if len(segments) > MAX_SEGMENTS:
        raise Limit(f"a path pattern has at most {MAX_SEGMENTS} segments", at="paths")
    for segment in segments:
        if segment != ANY:
            _check(segment, text)
    return tuple(segments)


def _check(segment: str, text: str) -> None:
    if not segment:
        raise _refused(text, "a path cannot have an empty segment", "Write one / between names, and none at the end.")
    if ANY in segment:
        raise _refused(text, "** must be a whole segment", "Write * inside a name.")
    try:
        # `*` is a wildcard here; everything else has to be spelled as in a URI.
        canonical = "*".join(encode_segment(decode_segment(part)) if part else "" for part in segment.split("*"))
    except KgdError as error:
        raise _refused(text, error.message, "A URI cannot have such a segment.") from None
    if canonical != segment:
        wanted = text.replace(segment, canonical, 1)
        raise _refused(text, "a URI spells that path differently", f"Write {wanted[:120]}.")


def _refused(text: str, why: str, next: str) -> Invalid:
    return Invalid(f"'{text[:80]}' matches nothing: {why}", at="paths", next=next)


def _match(pattern: Sequence[str], place: Sequence[str]) -> bool:
    """Whether the segments match; on a mismatch only the last `**` is extended, which suffices."""
    at = index = 0
    anchor, resume = -1, 0
    while at < len(place):
        if index < len(pattern) and pattern[index] == ANY:
            anchor, resume = index, at
            index += 1
        elif index < len(pattern) and _match_segment(pattern[index], place[at]):
            at += 1
            index += 1
        elif anchor >= 0:
            resume += 1
            at, index = resume, anchor + 1
        else:
            return False
    return all(segment == ANY for segment in pattern[index:])


def _match_segment(pattern: str, segment: str) -> bool:
    if segment == ANY:  # it stands for any number of segments, so no single segment of a pattern matches it
        return False
    return has_parts(segment, pattern.split("*")) if "*" in pattern else pattern == segment


def has_parts(text: str, parts: Sequence[str]) -> bool:
    """Whether the text consists of these parts, at least two, in their order and with any text between them."""
    first, *middle, last = parts
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
