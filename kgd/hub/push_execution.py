"""Pushes to a hub: checked and executed for the hooks that git starts during a push.

The objects are checked while git holds them in quarantine; `kgd.hooks.push_check` checks the right to push, as on any
git server. With `write`, the workspace's writer merges the pushed commits; with `propose`, they become a proposal, and
the pusher sees the proposal's name. Git itself does not move any ref. The old value of a ref that the client sends is
not trusted: it could name a commit that others have only proposed, and the push would then publish their changes.

A proposal is named ``proposals/<holder>-<number>`` after a push to the branch, ``proposals/<holder>/<name>`` after
a push to another name. Only its holder can move it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio.to_thread

from kgd.daemon.daemon import Daemon
from kgd.errors import MALFORMED, Advice, Damaged, Forbidden, Invalid, KgdError, Limit, Unavailable
from kgd.git.objects import ObjectId
from kgd.git.refs import PROPOSALS, RefMoved, RefUpdate, move_ref
from kgd.git.staging import Staging
from kgd.git.store import ObjectStore
from kgd.hooks.clone import settings_at
from kgd.hooks.push_check import LIMITS, Pushed, check_push
from kgd.hub.authentication import Gate
from kgd.model.access import Principal, Verb
from kgd.model.token import TokenRecord
from kgd.tools import entries
from kgd.workspace.history import pushers
from kgd.workspace.proposals import records
from kgd.workspace.proposals.deciding import drop_merged
from kgd.workspace.proposals.proposals import free_name, holder_name, is_called_after, is_name, of_line, open_proposals
from kgd.workspace.proposals.records import SharedProposals, turn
from kgd.workspace.publishing import adoption
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.touched_nodes import authorize_all
from kgd.workspace.writing.writer import Staged

ZERO = "0" * 40
QUESTION_LIMIT = 4 << 20
UPDATES_LIMIT = 64
PUBLISH_SECONDS = 2.0

log = logging.getLogger("kgd.hub")


@dataclass(slots=True)
class Push:
    """A running push, with the verdict about each of its updates."""

    record: TokenRecord
    workspace: Workspace
    verdicts: dict[tuple[str, ObjectId | None], Verdict] = field(default_factory=dict)


def _read(words: Any) -> RefUpdate:
    """A client's update of a ref."""
    old, new, ref = (str(word) for word in words)
    if new == ZERO:
        raise Forbidden("a hub does not delete branches", at=ref, next="`kgd reject` removes a proposal.")
    return RefUpdate(ref, None if old == ZERO else bytes.fromhex(old), bytes.fromhex(new))


class Receiving:
    """Answers the hooks of running pushes on a socket that only this user can open."""

    def __init__(self, daemon: Daemon, gate: Gate, socket: Path) -> None:
        self._daemon, self._gate, self.socket = daemon, gate, socket
        self._pushes: dict[str, Push] = {}
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket)
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._serve_hook, str(self.socket), limit=QUESTION_LIMIT)
        finally:
            os.umask(before)

    def close(self) -> None:
        if self._server:
            self._server.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket)

    @contextlib.contextmanager
    def expecting(self, record: TokenRecord, workspace: Workspace) -> Iterator[str]:
        """A context that yields the name under which hooks may ask about this push."""
        name = secrets.token_hex(16)
        self._pushes[name] = Push(record, workspace)
        try:
            yield name
        finally:
            del self._pushes[name]

    async def _serve_hook(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            question = json.loads(await reader.readline())
            push = self._pushes[question["push"]]
            answer = await anyio.to_thread.run_sync(self._answer, push, question)
        except (OSError, *MALFORMED):
            answer = {"refused": "the hub does not know this push"}
        writer.write(json.dumps(answer).encode())
        with contextlib.suppress(OSError):
            writer.write_eof()
            await writer.drain()
        writer.close()

    def _answer(self, push: Push, question: dict[str, Any]) -> dict[str, Any]:
        try:
            updates = question["updates"]
            if len(updates) > UPDATES_LIMIT:
                raise Invalid(f"one push moves at most {UPDATES_LIMIT} refs", next="Push them one by one.")
            with self._daemon.open_workspaces.holding():
                # reopened if it was closed while git received the pack
                push.workspace = self._daemon.workspace(push.workspace.id)
                if "quarantine" in question:
                    self._judge(push, list(map(_read, updates)), Path(question["quarantine"]))
                    return {"refused": ""}
                said: list[str] = []
                return {"refused": "", "results": [self._execute(push, words, said) for words in updates], "say": said}
        except KgdError as refusal:
            self._daemon.tokens.refused(push.record.holder.id, "push", refusal, push.workspace.id)
            return {"refused": told(refusal)}
        except Exception:
            log.exception("a push could not be judged")
            return {"refused": "kgd failed because of a defect and accepted no commit; the hub's log has the details"}

    def _judge(self, push: Push, updates: list[RefUpdate], quarantine: Path) -> None:
        """Check a push as a whole.

        Raises:
            KgdError: The push is refused; the error names node and rule.
        """
        self._gate.still_live(push.record)
        workspace = push.workspace
        if quarantine.resolve().parent != workspace.store.objects_dir.resolve():
            raise Invalid("this is not a quarantine of the workspace")
        self._daemon.upstream.fetch(workspace.id)
        wait_until_published(workspace, bytes.fromhex(workspace.tip))  # the check compares with the branch
        verdicts = judge(workspace, quarantine, push.record.holder, updates)
        self._daemon.tokens.spend(push.record, "nodes", sum(verdict.nodes for verdict in verdicts))
        for update, verdict in zip(updates, verdicts, strict=True):
            push.verdicts[update.name, update.new] = verdict

    def _execute(self, push: Push, words: Any, said: list[str]) -> list[str]:
        """The answer to one update in lines of the proc-receive protocol."""
        ref = str(words[2])
        try:
            _, _, new = _read(words)
            verdict = push.verdicts.get((ref, new))
            if verdict is None or new is None:
                raise Forbidden("this update was not checked", at=ref)
            return (self._merge if verdict.becomes == "merge" else self._propose)(push, ref, new, said)
        except KgdError as refusal:
            self._daemon.tokens.refused(push.record.holder.id, "push", refusal, push.workspace.id)
            said.append(told(refusal))
            return [f"ng {ref} {refusal.message[:120]}"]

    def _merge(self, push: Push, ref: str, new: ObjectId, said: list[str]) -> list[str]:
        workspace = push.workspace
        job = adoption.merge(workspace, new)

        def checked(staging: Staging, tip: ObjectId) -> Staged[object]:
            self._gate.still_live(push.record)
            return job(staging, tip)

        self._record(push, new)
        before, tip_before = workspace.conflict_count, bytes.fromhex(workspace.tip)
        branch_before = workspace.store.ref(workspace.layout.branch)
        workspace.run(checked, alone=True)
        drop_merged(workspace, tip_before, push.record.holder.name)
        self._note(push, "push", f"{new.hex()} to {ref}")
        self._daemon.upstream.push(workspace.id)
        if (opened := workspace.conflict_count - before) > 0:
            said.append(f"{opened} open conflict{'s' if opened > 1 else ''}: both sides are kept, `kgd conflicts`")
        if not wait_until_published(workspace, new):
            said.append("the branch follows as soon as the hub's work tree allows it")
        if ref == workspace.layout.branch:
            return [f"ok {ref}"]
        old = branch_before.hex() if branch_before else ZERO
        return [f"ok {ref}", f"option refname {workspace.layout.branch}", f"option old-oid {old}"]

    def _propose(self, push: Push, ref: str, new: ObjectId, said: list[str]) -> list[str]:
        self._gate.still_live(push.record)
        self._record(push, new)
        name = offer(push.workspace, push.record, ref, new)
        self._note(push, "propose", name)
        said.append(f"waits for review: {name}")
        if name == ref:
            return [f"ok {ref}"]
        return [
            f"ok {ref}",
            f"option refname {name}",
            f"option old-oid {ZERO}",
            f"option new-oid {new.hex()}",
        ]

    @staticmethod
    def _record(push: Push, new: ObjectId) -> None:
        """Record whose token pushed these commits, before any ref points to them."""
        workspace = push.workspace
        known = [bytes.fromhex(workspace.tip), *(tip for tip, _ in open_proposals(workspace).values())]
        commits = workspace.store.commits_between(known, new, limit=LIMITS.commits)
        pushers.record(
            workspace.layout, workspace.store, commits, push.record.holder, workspace.now(), workspace.signing
        )

    def _note(self, push: Push, action: str, detail: str) -> None:
        with contextlib.suppress(KgdError):
            self._daemon.tokens.note(push.record.holder.id, action, push.workspace.id, detail)


def wait_until_published(workspace: Workspace, commit: ObjectId) -> bool:
    """Wait until the branch has the commit, which is already durable; False if the work tree blocks publication."""
    deadline = time.monotonic() + PUBLISH_SECONDS
    while True:
        branch = workspace.store.ref(workspace.layout.branch)
        if branch is not None and workspace.store.is_ancestor(commit, branch):
            return True
        if time.monotonic() > deadline or workspace.health()["publish"].state in ("blocked", "off"):
            return False
        time.sleep(0.01)


FOR = "refs/for/"
"""Prefix of a branch name; a push there is merged even if it is not a fast-forward."""
_JUDGED_AS = f"{PROPOSALS}for"
TRIES = 50


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of an update, and the number of changed nodes."""

    becomes: Literal["merge", "proposal"]
    nodes: int


def judge(workspace: Workspace, quarantine: Path, holder: Principal, updates: list[RefUpdate]) -> list[Verdict]:
    """The verdict on each update. Only reads.

    Raises:
        Forbidden: The holder has no permission, or the ref is not accepted; the error names the node and the rule.
        KgdError: The content is invalid.
    """
    layout = workspace.layout
    store = ObjectStore(layout.git_dir, layout.work_tree, beside=quarantine)
    branch = store.ref(layout.branch)
    settings = settings_at(store, branch) if branch else None
    if branch is None or settings is None:
        raise Damaged(
            "the hub's branch does not contain a workspace", at=layout.branch, next="Ask the hub's administrator."
        )
    questions = [_question(store, layout.branch, branch, update) for update in updates]
    verdicts = check_push(Pushed(store, holder, settings, layout.branch, may_propose=True), questions, quarantine)
    found = []
    for update, verdict in zip(updates, verdicts, strict=True):
        may_write = verdict.verb is Verb.WRITE
        if update.name.startswith(FOR):
            try:
                authorize_all(holder, settings.policy, Verb.WRITE, verdict.touched)
                may_write = True
            except Forbidden:
                may_write = False
        found.append(Verdict("merge" if may_write else "proposal", len(verdict.touched.uris)))
    return found


def _question(store: ObjectStore, name: str, branch: ObjectId, update: RefUpdate) -> RefUpdate:
    """The update to check. The client's old value of the branch and of a proposal is not trusted."""
    ref, _, new = update
    short = name.removeprefix("refs/heads/")
    if ref == FOR + short:
        return RefUpdate(_JUDGED_AS, None, new)
    if ref == name:
        known = store.kind_and_size(new) if new else None
        if new and known and known[0] == "commit" and not store.is_ancestor(branch, new):
            raise Forbidden(
                "this is not a fast-forward: fetch first",
                at=ref,
                next=f"`git pull`, then push again; or let the hub merge it: git push origin HEAD:{FOR}{short}",
            )
        return RefUpdate(ref, branch, new)
    return RefUpdate(ref, None, new) if ref.startswith(PROPOSALS) else update


# ---- proposals


def offer(workspace: Workspace, record: TokenRecord, ref: str, new: ObjectId) -> str:
    """Create or continue a proposal of this holder; returns the full name of its ref.

    Raises:
        Limit: The holder has too many open proposals.
        Forbidden: The push does not continue the existing proposal, or the proposal belongs to another token.
        Invalid: The name is not allowed.
        Unavailable: The proposal could not be written, or another hub has just moved it.
    """
    with turn(workspace) as hubs:
        return _offered(workspace, record, ref, new, hubs)


def _offered(workspace: Workspace, record: TokenRecord, ref: str, new: ObjectId, hubs: SharedProposals | None) -> str:
    who, holder = record.holder, holder_name(record.holder.name)
    git_dir, scratch = workspace.layout.git_dir, workspace.layout.derived_dir
    waiting = open_proposals(workspace)
    mine = {name: tip for name, (tip, origin) in waiting.items() if origin.is_of(who)}
    if (same := next((name for name, id in mine.items() if id == new), None)) and not ref.startswith(PROPOSALS):
        return same
    wanted = ref if ref in mine else _wanted(ref, holder)
    if wanted not in mine and (count := of_line(workspace, who.line)) >= record.quota.pending_proposals:
        raise Limit(
            f"{count} proposals of '{who.name}' are open",
            at=ref,
            next="Wait until some are accepted or rejected, or add to one by pushing to its name.",
        )
    if wanted not in mine:
        _check_free(wanted, waiting)
    for _ in range(TRIES):
        name = wanted or PROPOSALS + free_name(workspace, holder)
        before = mine.get(name)
        if before is not None and not workspace.store.is_ancestor(before, new):
            raise Forbidden("a proposal cannot be rewritten", at=name, next="Push it under another name.")
        try:
            if hubs:
                hubs.put(name.removeprefix(PROPOSALS), new, records.pushed(who))
            move_ref(git_dir, scratch, name, before, new, note=records.pushed(who))
        except RefMoved:
            if wanted:
                raise Unavailable("the proposal was moved in the meantime", at=name, next="Push again.") from None
            continue
        except OSError as error:
            raise Unavailable(f"the ref cannot be written: {error.strerror}", at=name, next="Push again.") from None
        workspace.tell_uncommitted()
        return name
    raise Unavailable("other proposals were pushed in the meantime", at=ref, next="Push again.")


def _wanted(ref: str, holder: str) -> str:
    """The requested name, below the holder's; empty if the push does not name a proposal."""
    if not ref.startswith(PROPOSALS):
        return ""
    name = ref.removeprefix(PROPOSALS)
    if not is_called_after(ref, holder):
        name = f"{holder}/{name}"
    if not is_name(name):
        raise Invalid("a proposal's name can have only letters, digits, - and _", at=ref, next="Choose another name.")
    return PROPOSALS + name


def _check_free(name: str, waiting: Iterable[str]) -> None:
    """Refuse the name of another holder's proposal, and a name that git cannot store together with the names of open
    proposals."""
    for other in waiting:
        if other == name:
            raise Forbidden("another token's proposal has that name", at=name, next="Push it under another name.")
        if other.startswith(f"{name}/") or (name and name.startswith(f"{other}/")):
            raise Invalid(
                f"git cannot store this name together with the open {other}",
                at=name,
                next="Push it under another name, or to the branch.",
            )


def told(refusal: KgdError) -> str:
    """The refusal for the terminal of the person who pushed: with pages and commands instead of operations."""
    if isinstance(refusal.next, Advice):
        refusal.next = refusal.next.said(lambda do: entries()[do.operation]["page"])
    return str(refusal)
