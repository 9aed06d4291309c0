"""This file is where the reflog of a proposal tells whose it is: a commit's author is whatever its maker wrote.

Its owner is a token, by its identity: names can be chosen. The line that the token is from is noted as well, since
proposals are bounded by it. A proposal without an owner is nobody's but the keeper's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kgd.git.refs import read_log
from kgd.model.access import Principal

_PUSHED = "kgd: pushed by "
_LINE = re.compile(r"kgd: (?:pushed|proposed) by (.*) \[([0-9A-Za-z]*) ([0-9A-Za-z]*)\]").fullmatch


@dataclass(frozen=True, slots=True)
class Origin:
    """Who put a proposal up: `Principal.identity` and `Principal.line`, and as ``holder (id)`` who pushed it, if so."""

    owner: str = ""
    line: str = ""
    pusher: str = ""

    def is_of(self, who: Principal) -> bool:
        """Whether they, or a token made from theirs, put it up."""
        return who.identity in (self.owner, self.line)


NOBODY = Origin()


def pushed(holder: Principal) -> str:
    """The line that a push with this holder's token leaves."""
    return f"{_PUSHED}{holder.name} ({holder.id}) [{holder.identity} {holder.line}]"


def proposed(name: str, holder: Principal | None) -> str:
    """The line that a submission leaves; None is a person of this machine."""
    owner = f"{holder.identity} {holder.line}" if holder else " "
    return f"kgd: proposed by {name[:100]} [{owner}]"


def origin(git_dir: Path, ref: str) -> Origin:
    """What the reflog tells of a proposal of this repository."""
    for line in reversed(read_log(git_dir, ref)):
        if found := _LINE(line.note):
            return Origin(found[2], found[3], found[1] if line.note.startswith(_PUSHED) else "")
    return NOBODY
