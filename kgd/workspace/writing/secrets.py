"""The search for secrets in content before it goes into git, which never forgets.

Three rules: the form of a known service's token, a form with a keyword (a private key, a password in a URL), and a
random value assigned to a name such as ``api_key``. The refusal names the field, never the value. Keywords are found by
plain search and forms are bounded, so the cost is linear in the length of the text.
"""

from __future__ import annotations

import base64
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kgd.errors import Refused
from kgd.model.fields import plain
from kgd.model.node import Json, Node
from kgd.workspace.writing.secret_forms import HARMLESS_NAMES, KEYWORDS, NAMES, PAIRS, PLACEHOLDERS, TOKENS

_KINDS = tuple(TOKENS)
_TOKEN = re.compile(
    b"(?<![A-Za-z0-9])(?=[A-Za-z0-9_])(?:%s)"
    % b"|".join(b"(?P<t%d>%b)" % (number, form.encode()) for number, form in enumerate(TOKENS.values()))
)
_SHORTEST = 16
"""Characters of the shortest token."""
_TO_WORDS, _TO_PARTS = (
    bytes(120 if byte < 128 and (chr(byte).isalnum() or chr(byte) in also) else 32 for byte in range(256))
    for also in ("_-.~+/=:@|%", "_-")
)
"""Map a text to blanks and one letter, so that plain search finds long words and long parts of words."""
_KEYWORDS = {word: (kind, re.compile(form.encode())) for word, (kind, form) in KEYWORDS.items()}
_ASSIGNED = re.compile(
    rb"""[\w.-]{0,20}+(?:[ \t]{1,3}[\w.-]{1,12}){0,2}?[ \t]{0,3}+['"]?+[ \t\r\n]{0,3}+(?:\|\||=>|:{0,3}=|\?=|[:>,])"""
    rb"""[`'"\s=]{0,12}+(?P<value>(?![a-zA-Z_]\w{0,15}=[\w-])[\w.=+/~-]{10,200}+)(?=[`'"\s;,<>)}\]&]|\\[nr]|$)"""
)
_HARMLESS_NAME = re.compile(HARMLESS_NAMES)
_PLACEHOLDER = re.compile(PLACEHOLDERS)
_UUID_OR_HEX = re.compile(r"[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12,}|[0-9a-fA-F]{24,}").fullmatch
MIN_ENTROPY = 3.5
"""Bits per character."""
MIN_ENTROPY_HEX = 2.75


SAY_WHERE = "Write where the secret is kept, not the secret itself; git never forgets."


class HoldsSecret(Refused):
    """A text seems to hold a secret; the message never repeats it."""


class Secret(NamedTuple):
    """A likely credential; `text` is the credential itself, for searching and never for display."""

    kind: str
    text: str


def refuse_secrets(node: Node, before: Node | None = None, place: Callable[[str, Secret], str] | None = None) -> None:
    """Raise if a field of the node adds a likely credential that no field of `before` held.

    Args:
        place: The place of the secret in a file; without it the node is named.

    Raises:
        HoldsSecret: Names the place, the field and the kind of secret.
    """
    said = list(_texts(plain(before), "")) if before else []
    known, unchanged = "\n".join(text for _, text in said), set(said)
    for field, text in _texts(plain(node), ""):
        found = None if (field, text) in unchanged else new_secret_in(text, known)
        if found:
            raise HoldsSecret(
                f"the field '{field}' holds what looks like a secret ({found.kind})",
                at=place(field, found) if place else node.uri,
                next=SAY_WHERE,
            )


def secret_in_values(values: Mapping[str, Json]) -> str:
    """The kind of the first secret in a text of the values, or the empty string."""
    return next((kind for _, text in _texts(values, "") if (kind := secret_in(text))), "")


def refuse_secret_text(text: str, what: str, at: str = "") -> None:
    """Raise if the text, described as `what`, holds a likely credential.

    Raises:
        HoldsSecret: Names the text and the kind of secret.
    """
    if kind := secret_in(text):
        raise HoldsSecret(f"{what} holds what looks like a secret ({kind})", at=at, next=SAY_WHERE)


def secret_in(text: str) -> str:
    """The kind of the first secret in the text, or the empty string. Linear in the length of the text."""
    found = first_in(text)
    return found.kind if found else ""


def first_in(text: str) -> Secret | None:
    """The first secret in the text, known tokens first. Linear in the length of the text."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) < _SHORTEST:
        return None
    lower = data.lower()
    return _token(data) or _by_keyword(data, lower) or _assigned(data, lower)


def new_secret_in(text: str, known: str) -> Secret | None:
    """The first secret in the text that `known` lacks: history already holds the known ones."""
    while found := first_in(text):
        if found.text not in known:
            return found
        text = text.replace(found.text, "-")
    return None


def line_of(secret: Secret, data: bytes, start: int = 0) -> int:
    """The line of a file with this secret, searched from `start` first.

    The line of `start` if the file spells the secret differently.
    """
    spelled = secret.text.encode("utf-8", "surrogatepass")
    at = data.find(spelled, start)
    if at < 0 and (at := data.rfind(spelled, 0, start)) < 0:
        at = start
    return data.count(b"\n", 0, at) + 1


def _token(data: bytes) -> Secret | None:
    parts = data.translate(_TO_PARTS)
    at = parts.find(b"x" * _SHORTEST)
    words = data.translate(_TO_WORDS) if at >= 0 else b""
    while at >= 0:
        end = words.find(b" ", at)
        end = end if end >= 0 else len(data)
        for found in _TOKEN.finditer(data, words.rfind(b" ", 0, at) + 1, end):
            if _entropy(found[0]) > 1 and not re.search(rb"(?i)example|x{8}", found[0]):
                return Secret(_KINDS[int((found.lastgroup or "t0")[1:])], _text(found[0]))
        at = parts.find(b"x" * _SHORTEST, end)
    return None


def _by_keyword(data: bytes, lower: bytes) -> Secret | None:
    for word, (kind, form) in _KEYWORDS.items():
        for at in _places(lower, word):
            if found := form.match(data, at):
                value = found["value"] if form.groups else found[0]
                if not _PLACEHOLDER.search(value.lower()) and (word != b"basic" or _is_login(value)):
                    return Secret(kind, _text(value))
    return None


def _assigned(data: bytes, lower: bytes) -> Secret | None:
    for name in NAMES:
        for at in _places(lower, name):
            found = _ASSIGNED.match(data, at + len(name))
            if (
                found
                and _is_random(found["value"])
                and not _HARMLESS_NAME.search(lower, max(0, at - 24), found.start("value"))
            ):
                return Secret("a random value assigned to a secret's name", _text(found["value"]))
    return None


def _places(lower: bytes, word: bytes) -> Iterator[int]:
    at = lower.find(word)
    while at >= 0:
        yield at
        at = lower.find(word, at + len(word))


def _is_random(value: bytes) -> bool:
    text = value.decode("ascii")
    has_digit, has_letter = any(c.isdigit() for c in text), any(c.isalpha() for c in text)
    if not has_digit or not has_letter or _PLACEHOLDER.search(value.lower()):
        return False
    if _UUID_OR_HEX(text):
        return _entropy(value) >= MIN_ENTROPY_HEX
    return _entropy(value) >= MIN_ENTROPY - (len(value) < 24) / 2 and not _reads_as_words(text.lower())


def _is_login(value: bytes) -> bool:
    """Whether this is ``USER:PASSWORD`` in base64."""
    try:
        return b":" in base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except ValueError:
        return False


def _reads_as_words(text: str) -> bool:
    """Whether most neighbouring letters are common pairs of English, as in ``read_only_2_replicas``."""
    if len(re.findall(r"[a-z](?=\d)|\d(?=[a-z])", text)) >= 6:
        return False
    pairs = [text[at : at + 2] for at in range(len(text) - 1) if text[at : at + 2].isalpha()]
    return len(pairs) < 4 or sum(pair in PAIRS for pair in pairs) > 0.5 * len(pairs)


def _entropy(value: bytes) -> float:
    return -sum(n / len(value) * math.log2(n / len(value)) for n in Counter(value).values())


def _text(found: bytes) -> str:
    return found.decode("utf-8", "surrogatepass")


def _texts(value: Json, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            # `data: {password: ...}` is an assignment too, so the key is part of the text.
            if isinstance(inner, str):
                yield f"{path}.{key}".lstrip("."), f"{key}: {inner}"
            else:
                yield from _texts(inner, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, path)
