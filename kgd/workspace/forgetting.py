"""Removal of a secret from the whole history of a closed workspace.

Each commit that contains the secret, and each later one, is rewritten without it (`kgd.git.rewriting`). One commit on
top records the removal, and lists the removed commits, so that no old copy can bring them back. Then the old objects
are deleted. See docs/decisions/0054-forget.md.

The work tree moves first, then the refs, in one transaction of git. After an interruption, the same call completes the
rest: the new objects depend only on the old history and on the secret.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from itertools import count
from typing import Protocol
from urllib.parse import quote

from kgd.codec import documents, paths
from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import Settings, decode_settings
from kgd.errors import Advice, Damaged, Do, Invalid, KgdError, NotFound, Unavailable
from kgd.git import index_file, integrity, pack_upkeep, refs, rewriting
from kgd.git.layout import Layout
from kgd.git.objects import ObjectId, raw, signature, with_trailers
from kgd.git.rewriting import Rewriting
from kgd.git.staging import Staging
from kgd.git.store import ObjectStore
from kgd.model.change import Author, subject_from
from kgd.model.node import Node, Relation
from kgd.model.uri import Uri
from kgd.workspace.history import pushers
from kgd.workspace.history.pushers import GOOD, SignedHistory
from kgd.workspace.publishing import publish_steps
from kgd.workspace.repository import Ownership
from kgd.workspace.writing.signing import CommitSigning, Seal

REMOVED = b"REMOVED"
"""Stands in place of the secret: one plain word in YAML, JSON, Markdown and file names."""
SHORTEST = 6
"""Fewest characters of a secret's line: a shorter one would also occur elsewhere."""
TRAILER = "Kgd-Forgets"
KEPT_LOGS = refs.PROPOSALS, refs.INCOMING, refs.REJECTED, refs.ACCEPTED
"""Prefixes of refs whose reflogs are records: of proposers, comments and decisions."""
LEDGERS = "refs/kgd/ledger/"
"""Prefix of refs with the ledgers that remotes have; derived from the ledger itself."""
PATHS = 100
"""Largest number of paths in a record."""
Progress = Callable[[int, str], object]
_RECORD = re.compile("forget ([0-9a-f]{40})").fullmatch


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The result of a removal or a rehearsal: `rewritten` counts commits, `paths` are the files with the secret.

    `moved` are the refs with their old and new commits, and `record` is the commit on top; empty on a rehearsal.
    `signed` tells whether the record is signed.
    """

    workspace: str
    rewritten: int
    paths: list[str]
    before: str
    record: str = ""
    signed: bool = False
    moved: dict[str, tuple[str, str]] = field(default_factory=dict)


class Derived(Protocol):
    """Names and tags that were derived from the secret."""

    def spellings(self, line: str) -> set[str]:
        """A line of the secret, as it is spelled in names and tags."""

    def learn(self, body: bytes, without: Callable[[str], str], blank: Callable[[str], str]) -> None:
        """Add the texts that were derived from a file with the secret. `without` replaces the secret, and `blank`
        leaves a space."""

    def tags_removed(self, body: bytes) -> bytes:
        """A file without the derived tags."""

    def renamed(self, body: bytes) -> bytes:
        """A text without the secret, with new names in place of derived names."""


def forms(secret: str, spellings: Callable[[str], set[str]]) -> list[bytes]:
    """The spellings of a secret to search for, longest first: each of its lines unchanged and as in `spellings`; and
    each of these in a quoted string of JSON or YAML, and percent-encoded.

    Raises:
        Invalid: A line is too short to search for.
    """
    lines = [line.strip() for line in secret.splitlines() if line.strip()]
    if not lines:
        raise Invalid("the secret is empty", next="Pass it on standard input, or in a file with --file.")
    if short := next((line for line in lines if len(line) < SHORTEST), ""):
        raise Invalid(
            f"a line of the secret has {len(short)} characters; at least {SHORTEST} are needed",
            next="Pass a longer part of the secret: a short one would also match elsewhere.",
        )
    words = {word for line in lines for word in (line, *(one for one in spellings(line) if len(one) >= SHORTEST))}
    found = {spelling for word in words for spelling in (word, json.dumps(word)[1:-1], quote(word, safe=""))}
    return sorted((one.encode() for one in found), key=len, reverse=True)


def replaced_tips(layout: Layout) -> set[ObjectId]:
    """The tips that earlier removals replaced, as their records name them. Reads the messages of the whole history.

    The present history has everything in these tips except the removed secrets.

    Raises:
        Damaged: The history cannot be read.
    """
    wanted = f"%(trailers:key=Kgd-Op,valueonly,separator=%x20) %(trailers:key={TRAILER},valueonly,separator=%x20)"
    arguments = ["log", "--no-show-signature", f"--format={wanted}", layout.branch, "--"]
    lines = pushers.lines_of_history(layout.git_dir, arguments)
    return {bytes.fromhex(match[1]) for line in lines if (match := _RECORD(line))}


def forget(
    layout: Layout,
    secret: str,
    author: Author,
    reason: str,
    now: int,
    signing: CommitSigning,
    derived: Derived,
    *,
    rehearse: bool = False,
    progress: Progress = lambda done, message: None,
) -> Forgotten:
    """Remove a secret, and the texts that kgd derived from it, from all content, names and messages of a workspace
    that no process has open.

    Costs two passes over the whole history, and a repack of the repository.

    Args:
        secret: Its lines are removed one by one.
        reason: Goes into the record; must not contain the secret.
        rehearse: Only report the files and commits.

    Raises:
        NotFound: No object contains the secret.
        Invalid: The secret is too short, or a part of kgd's own format; nothing was changed.
        Unavailable: Another process has the workspace open, or its git state does not allow a rewriting.
        Forbidden: The workspace requires signed commits, and there is no allowed key.
        Damaged: An object cannot be read; nothing was changed.
    """
    spelled = forms(secret, derived.spellings)
    found = re.compile(b"|".join(map(re.escape, spelled)))
    plain = _removing(found, spelled)

    def edit(body: bytes) -> bytes:
        return derived.renamed(plain(derived.tags_removed(body)))

    owner = Ownership(layout.derived_dir)
    try:
        integrity.recover(layout)
        store = layout.open()
        head = _check_state(layout, store)
        seal = Seal(layout.git_dir)
        made = Rewriting(store, edit, lambda old, body: seal.renewed(store, old, body))
        holders = rewriting.containing(store, found.search)
        in_logs = any(found.search(path.read_bytes()) for path in rewriting.logs(layout.git_dir))
        if not holders and not in_logs:
            raise NotFound("nothing in this workspace contains this text", next="Check the text for typos.")
        _learn(derived, store, holders, plain, found)
        commits = rewriting.commits_of(store, (refs.NOTES, f"{LEDGERS}*"))
        made.of_commits(commits, lambda done: progress(done, "reading commits"))
        progress(len(made.commits), "searching for the secret")
        settings = _settings(store, store.tree_of(head))
        files = sorted({edit(raw(path)).decode("utf-8", "replace") for path in made.paths})
        before = Forgotten(settings.workspace, len(made.commits), files, head.hex())
        if rehearse:
            return before
        done = before
        if made.commits:
            done = _Move(layout, store, made, signing, found).run(before, author, edit(reason.encode()), now)
        progress(done.rewritten, "removing old objects")
        _purge(layout, edit)
        return done
    finally:
        owner.release()


def _learn(
    derived: Derived, store: ObjectStore, holders: Iterable[ObjectId], plain: rewriting.Edit, found: re.Pattern[bytes]
) -> None:
    def changed(edit: rewriting.Edit) -> Callable[[str], str]:
        return lambda text: edit(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    without, blank = changed(plain), changed(lambda body: found.sub(b" ", body))
    for id in holders:
        if (store.kind_and_size(id) or ("", 0))[0] == "blob":
            derived.learn(store.read(id, rewriting.BODY_LIMIT), without, blank)


def _purge(layout: Layout, edit: rewriting.Edit) -> None:
    """Delete the secret from everything but the refs: reflogs, old objects and derived data."""
    rewriting.edit_logs(layout.git_dir, KEPT_LOGS, edit)
    rewriting.scrub(layout.git_dir)
    _clear(layout)
    pack_upkeep.renew_graph(layout.git_dir)
    if left := rewriting.containing(layout.open(), lambda body: edit(body) != body):
        raise Damaged(f"{len(left)} objects still contain the secret", at=left[0].hex(), next="Report this defect.")


def _removing(found: re.Pattern[bytes], spelled: list[bytes]) -> rewriting.Edit:
    """Make the function that replaces the secret until it is gone: a replacement and the text around it may form the
    secret again. It also replaces the beginning of the secret at the end of a text that kgd has cut with an ellipsis.

    Raises:
        Invalid: The secret is a part of its own replacement, or a field of nodes.
    """
    if found.search(REMOVED * 3):
        raise Invalid(
            f"the secret is a part of `{REMOVED.decode()}`, which replaces it", next="Pass a longer part of the secret."
        )
    if word := next((one.name for kind in (Node, Relation) for one in fields(kind) if found.search(raw(one.name))), ""):
        raise Invalid(f"kgd's own files need the word `{word}`", next="Pass a longer part of the secret.")

    beginnings = {one[:SHORTEST] for one in spelled}
    cut = re.compile(rb"(%b)([^\n\xe2]*?)( ?(?:\xe2\x80\xa6|\\u2026))" % b"|".join(map(re.escape, beginnings)))

    def _without_beginning(match: re.Match[bytes]) -> bytes:
        said = match[1] + match[2]
        return REMOVED + match[3] if any(one.startswith(said) for one in spelled) else match[0]

    def edit(body: bytes) -> bytes:
        while found.search(body):
            body = found.sub(REMOVED, body)
        return cut.sub(_without_beginning, body)

    return edit


def _check_state(layout: Layout, store: ObjectStore) -> ObjectId:
    """The tip, if the state of git allows that every ref and the work tree move at once."""
    git_dir, git = layout.git_dir, layout.git_command
    head, branch = store.ref(refs.HEAD), store.ref(layout.branch)
    if head is None:
        raise Unavailable("this workspace has no commit", at=str(git_dir))
    if branch != head:
        raise Unavailable(
            "not every change is published on the branch",
            at=layout.branch,
            next=Advice(Do("status"), " shows the reason."),
        )
    if store.ref("refs/stash"):
        raise Unavailable(
            "there are stashed changes", at=str(git_dir), next=f"`{git} stash pop` or `{git} stash drop` them."
        )
    if any((git_dir / "worktrees").glob("*")):
        raise Unavailable(
            "the repository has additional work trees", at=str(git_dir), next=f"`{git} worktree remove` them first."
        )
    if layout.is_bare:
        return head
    if busy := publish_steps.busy(publish_steps.signature(git_dir, layout.branch), layout):
        raise Unavailable(busy.reason, at=str(layout.work_tree))
    changed = _uncommitted(layout)
    if others := [path for path in changed if path != rewriting.FORGOTTEN]:
        raise Unavailable(
            "the work tree has changes that are not committed", at=others[0], next="Commit or discard them."
        )
    if changed:  # left by an earlier call that was interrupted
        index_file.run_in_work_tree(layout, "read-tree", "--reset", "-u", head.hex())
    return head


def _uncommitted(layout: Layout) -> list[str]:
    lines = index_file.run_in_work_tree(
        layout, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=no"
    ).split(b"\0")
    return [line[3:].decode("utf-8", "replace") for line in lines if line]


def _settings(store: ObjectStore, tree: ObjectId) -> Settings:
    blob = store.entry(tree, SETTINGS)
    if blob is None:
        raise Damaged("the workspace has no settings", at=SETTINGS, next="Restore the file from history.")
    return decode_settings(store.read(blob), newer=True)


class _Move:
    """The record, the ledger and the refs of a rewritten history."""

    def __init__(
        self, layout: Layout, store: ObjectStore, made: Rewriting, signing: CommitSigning, found: re.Pattern[bytes]
    ) -> None:
        self._layout, self._store, self._made, self._signing, self._found = layout, store, made, signing, found

    def run(self, found: Forgotten, author: Author, reason: bytes, now: int) -> Forgotten:
        layout, store, made = self._layout, self._store, self._made
        head = bytes.fromhex(found.before)
        good = self._good(head)
        moved: dict[str, tuple[ObjectId, ObjectId | None]] = {}
        for name, old in refs.list_refs(layout.git_dir).items():
            if name.startswith(LEDGERS):
                moved[name] = old, None
            elif name != refs.NOTES and (new := made.new(old)) != old:
                moved[name] = old, new
        made.write()
        record = self._record(found, author, reason.decode(), now)
        moved[refs.HEAD] = moved[layout.branch] = head, record
        sign = self._signing if self._signing.is_on else None
        if ledger := pushers.replaced(store, made.commits, good, now, sign):
            store.write(ledger[1])
            # a new ledger shares no commit with the old one
            moved[refs.NOTES] = store.ref(refs.NOTES) or bytes(20), ledger[0]
        store.renew(anew=True)
        if not layout.is_bare:  # first: after an interruption, files with the secret would look like edits by hand
            trees = store.tree_of(head), store.tree_of(record)
            index_file.move_work_tree(
                layout, head, record, [path for path, was, _ in store.diff(*trees) if was is None]
            )
        _clear(layout)  # first: the next start would keep a tip that the checkpoint names
        refs.move_refs(layout.git_dir, moved)
        listed = {name: (old.hex(), new.hex() if new else "") for name, (old, new) in moved.items()}
        return Forgotten(
            found.workspace, found.rewritten, found.paths, found.before, record.hex(), self._signing.is_on, listed
        )

    def _good(self, head: ObjectId) -> list[ObjectId]:
        """The commits whose signature or attestation is verified now, if kgd signs: rewriting removes signatures."""
        if not self._signing.is_on:
            return []
        sharded = _settings(self._store, self._store.tree_of(head)).sharded
        history = SignedHistory(self._store, head, sharded)
        attested = pushers.attestations(self._store)
        rewritten = (id for id in self._made.commits if id not in attested and history.verdict(id).state in GOOD)
        return [*attested, *rewritten]

    def _record(self, found: Forgotten, author: Author, reason: str, now: int) -> ObjectId:
        """Write the commit that records the removal, on top of the rewritten tip."""
        store = self._store
        parent = self._made.new(bytes.fromhex(found.before))
        self._check(store.tree_of(bytes.fromhex(found.before)), store.tree_of(parent))
        if {*self._made.first} <= {*rewriting.forgotten_in(store, parent)}:  # an earlier call was interrupted after it
            return parent
        by = signature(author, now)
        staging = Staging(store, store.tree_of(parent), self._signing)
        self._move_files(staging, store.tree_of(bytes.fromhex(found.before)), store.tree_of(parent))
        note = f"removed by {by.name} on {datetime.fromtimestamp(now, UTC):%Y-%m-%d}"
        before = staging.read(rewriting.FORGOTTEN)
        staging.put(rewriting.FORGOTTEN, rewriting.with_forgotten(before, self._made.first, note))
        listed = [f"- {path}" for path in found.paths[:PATHS]]
        more = [f"- and {len(found.paths) - PATHS} more"] if len(found.paths) > PATHS else []
        subject = subject_from("forget a secret:", reason) if reason else "forget a secret"
        lines = [subject, "", *([] if subject.endswith(reason) else [reason, ""])]
        commits = f"{found.rewritten} commit{'' if found.rewritten == 1 else 's'}"
        lines += [f"Rewrote {commits}. The secret was in:", *listed, *more]
        message = with_trailers("\n".join(lines), [("Kgd-Op", "forget"), (TRAILER, found.before)])
        commit = staging.commit(staging.write_tree(), [parent], by, message)
        if any(self._found.search(one.body) for one in staging.objects):
            raise Invalid(
                "the record of the removal would contain the secret", next="Pass a longer part of the secret."
            )
        store.write(staging.objects)
        return commit

    def _check(self, before: ObjectId, after: ObjectId) -> None:
        """Raise Invalid if the text is a part of the format, so that the workspace or a node would be unreadable."""
        old = _settings(self._store, before)
        try:
            new = _settings(self._store, after)
            is_same = (old.workspace, old.sharded) == (new.workspace, new.sharded)
        except KgdError:
            is_same = False
        if not is_same:
            raise Invalid(
                "the workspace's settings need this text", at=SETTINGS, next="Pass a longer part of the secret."
            )
        for path, was, now in self._store.diff(before, after):
            if not (was and now and path.startswith("nodes/")):
                continue
            if _is_node(self._store.read(was)) and not _is_node(self._store.read(now)):
                raise Invalid(
                    "without this text, the file would not be a valid node",
                    at=path,
                    next="Pass a longer part of the secret, or edit the node first.",
                )

    def _move_files(self, staging: Staging, before: ObjectId, after: ObjectId) -> None:
        """Move nodes and conflict records whose path follows from content that has changed."""
        sharded = _settings(self._store, before).sharded
        for path, _, new in self._store.diff(before, after):
            if new is None or not path.startswith(("nodes/", "conflicts/")):
                continue
            data = self._store.read(new)
            with contextlib.suppress(KgdError):  # an unreadable file stays where it is
                if path.startswith("nodes/"):
                    node = first = documents.decode(data)
                    numbers = count(2)  # two nodes whose names differed only in secrets
                    while (place := paths.path_of(node.uri, sharded)) != path and staging.blob_at(place):
                        node = replace(first, uri=Uri(f"{first.uri}-{next(numbers)}"))
                    data = data if node is first else documents.rewrite(data, node)
                else:
                    conflict = documents.decode_conflict(data)
                    place = paths.conflict_path(conflict.uri, conflict.digest, sharded)
                if place != path:
                    staging.remove(path)
                staging.put(place, data)


def _is_node(data: bytes) -> bool:
    with contextlib.suppress(KgdError):
        return bool(documents.decode(data))
    return False


def _clear(layout: Layout) -> None:
    """Delete derived data, which is made again. The lock file stays."""
    for entry in layout.derived_dir.iterdir():
        if entry.name == "lock":
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
