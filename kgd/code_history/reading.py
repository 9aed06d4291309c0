"""Reading the code's history into its index, newest commits first.

Commits that are no longer reachable are dropped, so a branch switch, an amended commit or a rebase costs only the
difference. An interrupted reading continues where it stopped. Trailers and email addresses in messages are left out, so
no person's address is stored.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from threading import Event
from typing import NamedTuple

from kgd.git import code_log
from kgd.git.code_log import CodeCommit
from kgd.git.discovery import Place
from kgd.index.commit_index import CommitIndex, NewCommit
from kgd.model.node import cut_at_word

SUBJECT, BODY = 300, 1_200
"""Maximum number of characters to store of the subject and of the body, which keeps its first paragraphs."""
REASON = 400
"""Maximum number of characters in a reason."""
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
    """The first paragraph of a body that is prose, on one line; empty if there is no such paragraph."""
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


COMMITS = 100_000
"""Number of newest commits to keep."""
BATCH = 1_000
"""Number of commits per transaction: few enough to be searchable soon."""
LEFT_OVER = 1_000
"""Number of commits beyond `COMMITS` that may accumulate before the oldest are dropped."""


class Difference(NamedTuple):
    """Commits to add above and below the stored ones, both newest first, and stored commits to drop."""

    above: list[str]
    below: list[str]
    gone: list[str]

    @property
    def size(self) -> int:
        return len(self.above) + len(self.below) + len(self.gone)


def difference(index: CommitIndex, code: Place, tip: str, limit: int = COMMITS) -> Difference:
    """The difference between the index and the history of `tip`. Raises as `code_log.commits` and `Database`."""
    known = index.tip()
    moved = code_log.moved(code, known, tip) if known else None
    if moved is not None:
        return Difference(moved[0][:limit], [], moved[1])
    stored = index.ids()
    listed = code_log.reachable(code, tip, limit)
    begun = next((place for place, id in enumerate(listed) if id in stored), 0)
    below = [id for id in listed[begun:] if id not in stored]
    return Difference(listed[:begun], below, sorted(stored.difference(listed)))


def boundary(code: Place) -> str:
    """A digest of the oldest commits of a shallow clone; empty if the clone is not shallow."""
    oldest = code_log.boundary(code)
    return hashlib.sha256("\n".join(sorted(oldest)).encode()).hexdigest()[:16] if oldest else ""


def update(index: CommitIndex, code: Place, tip: str, stop: Event | None = None, *, limit: int = COMMITS) -> int:
    """Update the index to the newest commits of `tip`, and return the number of commits read. No other writer may run.

    Raises:
        GitFailed, Limit: git cannot read the history.
        Unavailable: `stop` was set, git took too long, or the disk could not be written.
        IndexDamaged: The index must be recreated.
    """
    if index.boundary() != (digest := boundary(code)):
        index.recreate()  # the changes of the former oldest commits are known now, or the reverse
        index.set_boundary(digest)
    above, below, gone = difference(index, code, tip, limit)
    touched = set[str]()
    is_small = bool(index.tip()) and not gone and not below and len(above) <= BATCH
    if not is_small:
        index.set_tip("")  # so that everything is compared after an interruption
        index.drop(gone)
        index.note_files(code_log.files(code, tip))
    for start in range((len(above) - 1) // BATCH * BATCH, -1, -BATCH):  # oldest batch first: each goes to the top
        for batch in _batches(code, tip, above[start : start + BATCH], stop):
            index.add(batch, newer=True)
            touched.update(path for commit in batch for path in commit.paths)
            touched.update(was for commit in batch for was, _ in commit.renames)
    for batch in _batches(code, tip, below, stop):
        index.add(batch, newer=False)
    if is_small:
        present = set(code_log.files(code, tip, sorted(touched))) if touched else set[str]()
        index.note_files(present, touched - present)
    else:
        index.note_files(code_log.files(code, tip))
    if index.count() > limit + LEFT_OVER:
        index.keep_newest(limit)
    index.set_tip(tip)
    index.trim()
    return len(above) + len(below)


def new_commit(commit: CodeCommit) -> NewCommit:
    """A commit of the log as the index stores it."""
    told = parse(commit.message)
    return NewCommit(
        commit.id,
        commit.at,
        commit.author,
        told.subject,
        told.body,
        told.kind,
        told.reverts,
        commit.files,
        [change.path for change in commit.changes],
        [(one.was, one.path) for one in commit.changes if one.was],
    )


def _batches(code: Place, tip: str, ids: Sequence[str], stop: Event | None) -> Iterator[list[NewCommit]]:
    if ids:
        read = code_log.commits(code, tip, ids=ids, stop=stop)
        while batch := [new_commit(commit) for commit in islice(read, BATCH)]:
            yield batch
