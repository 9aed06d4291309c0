"""This file is where content is searched for secrets before it goes into git, from where nothing is ever taken back.

Two rules: a known prefix of a credential, and a random-looking value assigned to a name that says it is secret. The
refusal names the field, never the value.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kgd.errors import Refused
from kgd.model.fields import plain
from kgd.model.node import Json, Node

_KNOWN = re.compile(
    r"""(?x)
    \b(?:
        (?P<aws>(?:AKIA|ASIA)[0-9A-Z]{16})
      | (?P<github>gh[pousr]_[A-Za-z0-9]{36,} | github_pat_[A-Za-z0-9_]{60,})
      | (?P<gitlab>glpat-[A-Za-z0-9_-]{20,})
      | (?P<slack>xox[abeprs]-[A-Za-z0-9-]{20,})
      | (?P<stripe>[rs]k_live_[A-Za-z0-9]{20,})
      | (?P<google>AIza[0-9A-Za-z_-]{35})
      | (?P<anthropic>sk-ant-[A-Za-z0-9_-]{24,})
      | (?P<openai>sk-(?:proj-)?[A-Za-z0-9_-]{40,})
      | (?P<pypi>pypi-[A-Za-z0-9_-]{50,})
      | (?P<npm>npm_[A-Za-z0-9]{36})
      | (?P<kgd>kgd_[a-z]+_[A-Za-z0-9]{8}_[A-Za-z0-9]{40,})
    )
    | (?P<private_key>-----BEGIN\ (?:[A-Z0-9]+\ )*PRIVATE\ KEY(?:\ BLOCK)?-----)
    """
)
_ASSIGNED = re.compile(
    r"""(?ix)
    (?:pass(?:word|wd|phrase)|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential)s?
    ["']? \s* (?::|=|:=) \s* ["']? (?P<value>[A-Za-z0-9+/=_.~-]{20,200})
    """
)
NO_SECRETS = "Say where the secret is kept instead of what it is; git never forgets."
MIN_ENTROPY = 4.0
"""Bits per character; English prose has about 4.1 over letters and blanks but breaks off at the first blank."""


class Secret(NamedTuple):
    """What looks like a credential; `text` is that itself, to look for and never to tell."""

    kind: str
    text: str


def refuse_secrets(node: Node, before: Node | None = None, place: Callable[[str, Secret], str] | None = None) -> None:
    """Raise if a field of the node holds what looks like a credential that no field of `before` held.

    Args:
        place: Where that field has this secret, for who reads a file; else the node is named.

    Raises:
        Refused: Names the place, the field and the kind of secret.
    """
    said = list(_texts(plain(before), "")) if before else []
    known, unchanged = "\n".join(text for _, text in said), set(said)
    for field, text in _texts(plain(node), ""):
        found = None if (field, text) in unchanged else news_in(text, known)
        if found:
            raise Refused(
                f"the field '{field}' holds what looks like a secret ({found.kind})",
                at=place(field, found) if place else node.uri,
                next=NO_SECRETS,
            )  # fmt: skip


def secret_in(text: str) -> str:
    """The kind of the first secret in the text, or the empty string. Linear in the length of the text."""
    found = first_in(text)
    return found.kind if found else ""


def first_in(text: str) -> Secret | None:
    """The first secret in the text, one with a known prefix before all others. Linear in the length of the text."""
    if found := _KNOWN.search(text):
        return Secret((found.lastgroup or "credential").replace("_", " "), found[0])
    for match in _ASSIGNED.finditer(text):
        if _is_random(match["value"]):
            return Secret("a random value assigned to a secret's name", match["value"])
    return None


def news_in(text: str, known: str) -> Secret | None:
    """The first secret in the text that is not in `known`: history holds that one already."""
    while found := first_in(text):
        if found.text not in known:
            return found
        text = text.replace(found.text, "-")
    return None


def line_of(secret: Secret, data: bytes, start: int = 0) -> int:
    """The line of a file with this secret, below `start` if it is there, else above.

    The line of `start` where the secret is spelled in a way that no line of the file shows.
    """
    spelled = secret.text.encode("utf-8", "surrogatepass")
    at = data.find(spelled, start)
    if at < 0 and (at := data.rfind(spelled, 0, start)) < 0:
        at = start
    return data.count(b"\n", 0, at) + 1


def _is_random(value: str) -> bool:
    mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    counts = Counter(value)
    entropy = -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())
    return mixed and entropy >= MIN_ENTROPY


def _texts(value: Json, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            # `data: {password: ...}` is an assignment too: the key belongs to the text that is looked at.
            if isinstance(inner, str):
                yield f"{path}.{key}".lstrip("."), f"{key}: {inner}"
            else:
                yield from _texts(inner, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, path)
