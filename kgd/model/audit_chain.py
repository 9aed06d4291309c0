"""The chain of hashes over the audit log: each line's hash covers the line and the hash before it, so a changed,
removed or moved line is detected."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from kgd.model.token import AuditEntry

SEAL_SECONDS = 120
"""Age in seconds at which a line no longer changes and is added to the chain."""
SEALED_AT_ONCE = 1_000
MOST_PROBLEMS = 100


def chain_hash(before: str, number: int, entry: AuditEntry) -> str:
    """SHA-256, in hex, of a JSON list: the hash of the line before (empty for the first), and the line's fields."""
    fields = [before, number, entry.at, entry.token, entry.action, entry.workspace, entry.detail]
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()


def sealed(before: str, lines: Iterable[tuple[int, AuditEntry]]) -> list[tuple[int, str]]:
    """The numbers of consecutive lines with their hashes. `before` is the hash of the line before them."""
    found = []
    for number, entry in lines:
        before = chain_hash(before, number, entry)
        found.append((number, before))
    return found


@dataclass(slots=True)
class ChainCheck:
    """The result of checking lines in order.

    The chain begins at the line `first`, because earlier lines are older than the chain or were removed with their
    file. `last` is its last line, with the hash `hash`; `open` counts the lines after it.
    """

    first: int = 0
    last: int = 0
    hash: str = ""
    open: int = 0
    problems: list[str] = field(default_factory=list)
    _number: int = 0

    def add(self, number: int, entry: AuditEntry) -> None:
        if number <= self._number:
            self._found(f"line {number} follows line {self._number}")
        self._number = number
        if not entry.hash:
            self.open += bool(self.first)
            return
        if self.open:
            self._found(f"{self.open} lines before line {number} are not in the chain")
            self.open = 0
        if not self.first:
            self.first = number
        if (self.first < number or number == 1) and entry.hash != chain_hash(self.hash, number, entry):
            self._found(f"line {number} was changed, or does not follow line {self.last}")
        self.last, self.hash = number, entry.hash

    def _found(self, problem: str) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)
