"""The newest commits of a workspace, cached, with their authors and reverts; and the last review of each person.

A ref of this repository has the commit up to which a person has reviewed. A file in the folder of derived data has the
changes that the person approved since; without it, no change counts as approved.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

from kgd.git import files, program
from kgd.git.history import git_date
from kgd.git.objects import as_committed
from kgd.git.refs import move_ref, read_log
from kgd.model.uri import Uri
from kgd.tools import file_paths
from kgd.tools.nodes import is_agent, is_by
from kgd.tools.session import Session
from kgd.workspace.answers import Entry
from kgd.workspace.history.history import children_first, reverted_by
from kgd.workspace.proposals.proposals import holder_name
from kgd.workspace.served import Beside
from kgd.workspace.workspace import Workspace

REVIEWED = "refs/kgd/reviewed/"
"""Ref prefix of the last reviewed commit of each person."""
SHARED_NOTE = "kgd: reviewed"
"""The reflog note of a version that gave several people one ref."""
_WORDS = re.compile(r"[A-Za-z0-9_]+(?: [A-Za-z0-9_]+)*").fullmatch


def reviewer(person: str) -> str:
    """A person's name in refs and files, different for different people. A hash follows a name with characters
    other than letters, digits and single spaces.

    >>> reviewer("Ann Person"), reviewer("Ann.Person")
    ('Ann-Person', 'Ann-Person-x0b68adcc')
    """
    name, even = holder_name(person), unicodedata.normalize("NFC", person)
    hash = f"-x{hashlib.sha256(even.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return name if _WORDS(person) or name.endswith(hash) else name + hash


def last_review(workspace: Workspace, person: str) -> bytes | None:
    """The commit up to which a person has reviewed; None before the first review."""
    reviewed = workspace.store.ref(REVIEWED + reviewer(person))
    if reviewed is not None or holder_name(person) == reviewer(person):
        return reviewed
    shared = REVIEWED + holder_name(person)
    log = read_log(workspace.layout.git_dir, shared)
    return workspace.store.ref(shared) if log and log[-1].note == SHARED_NOTE else None


def note_review(workspace: Workspace, person: str, tip: bytes) -> None:
    """Record that a person has reviewed everything up to a commit, durably."""
    name = REVIEWED + reviewer(person)
    before = workspace.store.ref(name)
    if before != tip:
        note = f"{SHARED_NOTE} by {reviewer(person)}"
        move_ref(workspace.layout.git_dir, workspace.layout.derived_dir, name, before, tip, note=note)


MOST_NODES = 200_000
"""Largest number of nodes to cache for one commit, and for all."""


class Reverts:
    """The commits that reverted others, according to their messages.

    Args:
        entries: Commits, newest first.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        reverts = ((entry, reverted_by(entry)) for entry in entries)
        self._reverts = [(entry.commit, frozenset(entry.nodes), reverted) for entry, reverted in reverts if reverted]

    def of(self, uri: Uri) -> dict[str, str]:
        """The commits whose change to a node is reverted, each with the commit that reverted it.

        If the revert is itself reverted, the first commit no longer counts as reverted.
        """
        found: dict[str, str] = {}
        for commit, nodes, reverted in self._reverts:
            if uri in nodes and commit not in found:
                for one in reverted:
                    if not one.nodes or uri in one.nodes:
                        found.setdefault(one.commit, commit)
        return found


@dataclass(frozen=True, slots=True)
class _Unreviewed:
    """The last count of `unreviewed`: its tip, review and person, and whether each commit counts, oldest first."""

    tip: str
    whose: tuple[bytes | None, str]
    counts: tuple[bool, ...]


class _Cache(Beside):
    """A cache of the nodes that commits changed, so that the next page reads only new commits."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._nodes = 0
        self.unreviewed: _Unreviewed | None = None

    def entries(self, commits: Sequence[str]) -> list[Entry]:
        with self._lock:
            found = {id: self._entries[id] for id in commits if id in self._entries}
            for id in found:
                self._entries.move_to_end(id)
        new = [id for id in commits if id not in found]
        for entry in self._workspace.past.entries_of(new, limit=MOST_NODES):
            found[entry.commit] = replace(entry, nodes=tuple(sorted(entry.nodes)))
            self._keep(found[entry.commit])
        return [found[id] for id in commits]

    def _keep(self, entry: Entry) -> None:
        with self._lock:
            if entry.commit not in self._entries:
                self._entries[entry.commit] = entry
                self._nodes += len(entry.nodes)
            while len(self._entries) > 1 and (len(self._entries) > MOST_COMMITS or self._nodes > MOST_NODES):
                self._nodes -= len(self._entries.popitem(last=False)[1].nodes)


def recent_commits(
    workspace: Workspace, tip: str, reviewed: bytes | None, since: int | None
) -> tuple[list[Entry], bool]:
    """The newest commits, children before parents, without merges and initial commits, each with its nodes sorted; and
    whether the limit cut the list.

    The first call reads the trees of up to `MOST_COMMITS` commits; later calls read only new commits.

    Args:
        reviewed: Only commits after this one.
        since: Only commits since this time, in Unix seconds.
    """
    arguments = ["rev-list", f"--max-count={MOST_COMMITS}", tip]
    if since is not None:
        arguments.append(f"--since-as-filter={git_date(since)}")
    if reviewed is not None:
        arguments.append(f"^{reviewed.hex()}")
    said = program.run(workspace.layout.git_dir, arguments).decode().split()
    found = children_first(_Cache.of(workspace).entries(said))
    own = [one for one, is_change in zip(found, _are_own_changes(found), strict=True) if is_change]
    return own, len(said) == MOST_COMMITS


def unreviewed(workspace: Workspace, person: str) -> tuple[int, bool]:
    """The number of commits by agents and other people since a person's last review, among the newest `MOST_COMMITS`,
    and whether there may be more: the number that `review` counts.

    Reads commits, without their trees. The first call reads all of them; later calls read only new commits.
    """
    tip, reviewed = workspace.tip, last_review(workspace, person)
    cache, whose = _Cache.of(workspace), (reviewed, person)
    last = cache.unreviewed if cache.unreviewed is not None and cache.unreviewed.whose == whose else None
    if last is None or last.tip != tip:
        cache.unreviewed = last = _counted(workspace, tip, whose, last)
    return sum(last.counts), len(last.counts) == MOST_COMMITS


def _counted(workspace: Workspace, tip: str, whose: tuple[bytes | None, str], last: _Unreviewed | None) -> _Unreviewed:
    reviewed, person = whose
    arguments = ["rev-list", "--boundary", f"--max-count={MOST_COMMITS}", tip]
    arguments += [f"^{reviewed.hex()}"] if reviewed is not None else []
    arguments += [f"^{last.tip}"] if last is not None else []
    found = program.run(workspace.layout.git_dir, arguments).decode().split()
    if last is not None and f"-{last.tip}" not in found:  # the history was rewritten
        return _counted(workspace, tip, whose, None)
    entries = workspace.past.without_nodes(id for id in found if not id.startswith("-"))
    entries.reverse()
    changes = zip(entries, _are_own_changes(entries), strict=True)
    counts = tuple(is_change and not is_own(one, person) for one, is_change in changes)
    return _Unreviewed(tip, whose, ((last.counts if last is not None else ()) + counts)[-MOST_COMMITS:])


def _are_own_changes(entries: Iterable[Entry]) -> list[bool]:
    """Whether each commit is a change of its author. One loop without calls, since it passes many commits."""
    return [len(one.parents) == 1 and one.operation not in IMPORTING for one in entries]


MOST = 10_000
"""Largest number of nodes in a file; the oldest approvals are dropped first."""


class _Lock:
    """Lock of the approval files of a workspace."""

    def __init__(self, _: Workspace) -> None:
        self.held = threading.Lock()


class Approvals:
    """The approved commits of each node, by one person. Costs one read of a small file. Thread-safe."""

    def __init__(self, workspace: Workspace, person: str) -> None:
        self._path: Path = workspace.layout.derived_dir / f"approved-{reviewer(person)}.json"
        self._lock = workspace.beside(_Lock, _Lock).held
        self._nodes = self._read()

    def covers(self, uri: Uri, commits: Iterable[str]) -> bool:
        """Whether all of these commits of a node are approved."""
        return set(commits) <= set(self._nodes.get(uri, ()))

    def add(self, nodes: Mapping[str, Sequence[Uri]]) -> None:
        """Approve the changes to these nodes, durably.

        Args:
            nodes: For each commit, the nodes whose change in it is approved.
        """
        with self._lock:
            self._nodes = self._read()  # another call may have added to it
            for commit, uris in nodes.items():
                for uri in uris:
                    self._nodes[uri] = list(dict.fromkeys([*self._nodes.pop(uri, ()), commit]))
            newest = dict(islice(self._nodes.items(), max(0, len(self._nodes) - MOST), None))
            files.replace(self._path, json.dumps(newest).encode())

    def clear(self) -> None:
        """Drop all approvals, because a later review covers them."""
        with self._lock:
            self._path.unlink(missing_ok=True)

    def _read(self) -> dict[str, list[str]]:
        return files.read_state(self._path, _parse) or {}


def _parse(found: Any) -> dict[str, list[str]]:
    return {uri: [str(commit) for commit in commits] for uri, commits in found.items()}


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
