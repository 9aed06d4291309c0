"""Commit messages: subject, reason, and whether a commit fixes or reverts.

Trailers and email addresses are left out, so no person's address is stored.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kgd.model.node import cut_at_word

SUBJECT, BODY = 300, 1_200
"""Largest number of characters; a body keeps its first paragraphs."""
REASON = 400
"""Characters of a reason."""
FIX, REVERT = "fix", "revert"

_TRAILER = re.compile(
    r"(?i)(signed-off|co-authored|co-committed|reviewed|acked|tested|reported|suggested|helped|approved|cc|differential"
    r"|change-id|bug|test plan|git-svn|cherry|pr-url|reviewed-on)[\w -]{0,20}: ?\S.*|\(cherry picked from .*"
)
_ADDRESS = re.compile(r"<?[\w.+%-]+@[\w-]+(?:\.[\w-]+)+>?")
_REVERTS = re.compile(r"(?i)^revert(?:s|ed)?:?\s+[\"“'](?P<subject>.+)[\"”']")
_REVERT = re.compile(r"(?i)^(?:revert(?:s|ed|ing)?|back(?:ed|s)? out|roll(?:ed)? ?back|undo)\b")
_REVERTED_ID = re.compile(
    r"(?i)\b(?:reverts?|reverting|backs? out)\s+(?:commits?\s+)?(?P<id>[0-9a-f]{40}(?:[0-9a-f]{24})?)\b"
)
_FIX = re.compile(r"(?i)\b(?:fix(?:e[sd]|ing)?|bug ?fix(?:es)?|hotfix|bugs?|regressions?|crash(?:e[sd]|ing)?)\b")
_NO_FIX = re.compile(
    r"(?i)\b(?:typos?|spelling|lint(?:er|ing)?|flake8|mypy|ruff|format(?:ting)?|docs?|docstrings?|whitespace|grammar|links?|changelog|wording)\b"
)


class Message(NamedTuple):
    """The stored parts of a commit message. `reverts` is an id or a subject."""

    subject: str
    body: str
    kind: str
    reverts: str


def parse(text: str) -> Message:
    """Read a commit message."""
    subject, _, rest = text.strip().partition("\n")
    subject = cut_at_word(_without_addresses(subject), SUBJECT)
    body = _body(rest)
    kind, reverts = _kind(subject, rest)
    return Message(subject, body, kind, reverts)


def reason(body: str, length: int = REASON) -> str:
    """The first paragraph of a body that is prose, in one line; empty if there is none."""
    for paragraph in body.split("\n\n"):
        told = " ".join(paragraph.split())
        if len(told.split(" ")) >= 3 and not told.startswith(("http://", "https://", "* http", "- http")):
            return cut_at_word(told, length)
    return ""


def _body(rest: str) -> str:
    """The first paragraphs, without trailers and addresses, up to `BODY` characters."""
    kept: list[str] = []
    size = 0
    for paragraph in re.split(r"\n\s*\n", rest.strip()):
        lines = [_without_addresses(line) for line in paragraph.splitlines() if not _TRAILER.fullmatch(line.strip())]
        told = "\n".join(line for line in lines if line.strip())
        if told:
            kept.append(told[: BODY - size])
            size += len(told) + 2
        if size >= BODY:
            break
    return "\n\n".join(kept)


def _kind(subject: str, rest: str) -> tuple[str, str]:
    named = _REVERTED_ID.search(rest)
    quoted = _REVERTS.match(subject)
    if quoted or _REVERT.match(subject) or (named and "revert" in named[0].casefold()):
        return REVERT, named["id"].lower() if named else quoted["subject"] if quoted else ""
    if _FIX.search(subject) and not _NO_FIX.search(subject):
        return FIX, ""
    return "", ""


def _without_addresses(text: str) -> str:
    return _ADDRESS.sub("", text).rstrip()
