"""The authors of the newest commits, and advice for the name of an unknown author."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from itertools import islice

from kgd.git import program
from kgd.git.objects import as_committed
from kgd.tools import file_paths
from kgd.tools.nodes import is_agent, is_by
from kgd.tools.session import Session
from kgd.workspace.answers import Entry
from kgd.workspace.history.history import children_first
from kgd.workspace.workspace import Workspace

MOST_COMMITS = 2_000
AUTHORS_NAMED = 5
IMPORTING = ("init", "merge")
"""Operations that import changes of other authors, which are listed under these authors."""


def newest(workspace: Workspace, tip: str, limit: int) -> list[Entry]:
    """The newest commits of all kinds, children before parents, without their nodes. Reads no trees."""
    found = program.run(workspace.layout.git_dir, ["rev-list", f"--max-count={limit}", tip]).decode().split()
    return children_first(workspace.past.without_nodes(found))


def _similar(every: Sequence[Entry], name: str, others: Iterable[str]) -> str:
    """Suggest authors, as in ``Did you mean 'Ann'?``: up to three whose name contains or resembles the given one, or
    whose email address equals it. Empty if there are none.
    """
    wanted = name.casefold()
    names = {author.casefold(): author for author in (*(one.author for one in every), *others)}
    by_email = [one.author.casefold() for one in every if one.email.casefold() == wanted]
    containing = [name for name in names if wanted in name]
    found = dict.fromkeys([*by_email, *containing, *get_close_matches(wanted, names, 3)])
    listed = ", ".join(f"'{names[name]}'" for name in islice(found, 3))
    return f"Did you mean {listed}?" if listed else ""


def correction(
    session: Session, workspace: Workspace, author: str | None, paths: Sequence[str], others: Sequence[str] = ()
) -> str:
    """Explain an empty list: report an unknown author or path of its filter, with similar ones.

    The authors of the newest `MOST_COMMITS` commits are known, even outside the list's period. Empty if the author and
    the paths are known, and always for the holder of a token. `others` are known authors without a commit.
    """
    if session.principal is not None:
        return ""
    every = newest(workspace, workspace.tip, MOST_COMMITS) if author else []
    if author and not any(is_commit_by(author, one) for one in every):
        return known_authors(session, every, author, others)
    return file_paths.correction(session, workspace, paths)


def known_authors(session: Session, every: Sequence[Entry], name: str, others: Sequence[str] = ()) -> str:
    """Suggest similar authors for an unknown name, otherwise name some of the known ones.

    Empty if the caller has a token, or if no author is known. `others` are authors without a commit.
    """
    if session.principal is not None:
        return ""
    return _similar(every, name, others) or _some(every, name, others)


def _some(every: Sequence[Entry], name: str, others: Iterable[str]) -> str:
    known = (*(one.author for one in every if one.operation not in IMPORTING), *others)
    listed = [f"'{author}'" for author in dict.fromkeys(known)]
    if not listed or name.casefold() in ("agent", "agents", "person", "people"):
        return ""
    more = f" and {len(listed) - AUTHORS_NAMED} more" if len(listed) > AUTHORS_NAMED else ""
    among = f" in the newest {MOST_COMMITS:,} commits" if len(every) == MOST_COMMITS else ""
    authors = f"{', '.join(listed[:AUTHORS_NAMED])}{more}"
    return f"No author's name contains '{name[:60]}'{among}. The authors are {authors}."


def is_commit_by(by: str | None, entry: Entry) -> bool:
    """See `is_by`."""
    return is_by(by, entry.author, f"<{entry.email}>", entry.client, entry.pushed_by, agent=by_agent(entry))


def is_own(entry: Entry, person: str) -> bool:
    """Whether a person made a commit without an agent."""
    return entry.author == person and not by_agent(entry)


def is_callers(session: Session, workspace: Workspace) -> Callable[[Entry], bool]:
    """Predicate for the commits that the caller made or accepted, as far as their authors can be trusted.

    Commits by this machine's user include those of their agents; for an agent, only commits by the same program count.
    The holder of a token made no commit that was pushed: its author is only a claim.
    """
    caller = session.author(workspace)
    me = as_committed(caller)

    def is_by_caller(entry: Entry) -> bool:
        if entry.accepted_by and not (session.by_agent or session.principal):
            return entry.accepted_by == caller.name
        if entry.accepted_by not in ("", entry.author) or (session.principal and entry.pushed_by):
            return False
        is_same_program = not session.by_agent or entry.client == me.client
        return (entry.author, entry.email) == (me.name, me.email) and is_same_program

    return is_by_caller


def by_agent(entry: Entry) -> bool:
    return is_agent(entry.client, entry.email) or entry.pushed_by_agent
