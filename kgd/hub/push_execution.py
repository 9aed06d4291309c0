"""Pushes to a hub: checked and executed for the hooks that git starts during a push.

The objects are checked while git holds them in quarantine. With `write` the workspace's writer merges them; with
`propose` they become a proposal, and the pusher sees its name. Git itself moves no ref.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio.to_thread

from kgd.daemon.daemon import Daemon
from kgd.errors import Forbidden, Invalid, KgdError
from kgd.git.objects import ObjectId
from kgd.git.staging import Staging
from kgd.hooks.push_check import LIMITS
from kgd.hub.authentication import Gate
from kgd.hub.push_verdict import Verdict, judge, offer
from kgd.model.token import TokenRecord
from kgd.workspace.history import pushers
from kgd.workspace.proposals.deciding import drop_merged
from kgd.workspace.proposals.proposals import pending
from kgd.workspace.publishing import adoption
from kgd.workspace.workspace import Workspace
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
    verdicts: dict[tuple[str, str], Verdict] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Update:
    """A client's update of `ref` from `old` (None for a new ref) to `new`."""

    ref: str
    old: ObjectId | None
    new: ObjectId

    @classmethod
    def read(cls, words: Any) -> Update:
        old, new, ref = (str(word) for word in words)
        if new == ZERO:
            raise Forbidden("a hub deletes no branch", at=ref, next="`kgd reject` removes a proposal.")
        return cls(ref, None if old == ZERO else bytes.fromhex(old), bytes.fromhex(new))


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
        """A context with the name under which hooks may ask about this push."""
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
        except (ValueError, KeyError, TypeError, OSError):
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
            if "quarantine" in question:
                self._judge(push, [Update.read(words) for words in updates], Path(question["quarantine"]))
                return {"refused": ""}
            said: list[str] = []
            return {"refused": "", "results": [self._execute(push, words, said) for words in updates], "say": said}
        except KgdError as refusal:
            self._daemon.tokens.refused(push.record.holder.id, "push", refusal, push.workspace.id)
            return {"refused": str(refusal)}
        except Exception:
            log.exception("a push could not be judged")
            return {"refused": "kgd failed with a defect and took no commit; the hub's log has the details"}

    def _judge(self, push: Push, updates: list[Update], quarantine: Path) -> None:
        """Check a push as a whole.

        Raises:
            KgdError: The push is refused; names node and rule.
        """
        self._gate.still_live(push.record)
        workspace = push.workspace
        if quarantine.resolve().parent != workspace.store.objects_dir.resolve():
            raise Invalid("this is not a quarantine of the workspace")
        self._daemon.upstream.fetch(workspace.id)
        asked = [(update.ref, update.old, update.new) for update in updates]
        verdicts = judge(workspace, quarantine, push.record.holder, asked)
        self._daemon.tokens.spend(push.record, "nodes", sum(verdict.nodes for verdict in verdicts))
        for update, verdict in zip(updates, verdicts, strict=True):
            push.verdicts[update.ref, update.new.hex()] = verdict

    def _execute(self, push: Push, words: Any, said: list[str]) -> list[str]:
        """The answer to one update in lines of the proc-receive protocol."""
        ref = str(words[2])
        try:
            update = Update.read(words)
            verdict = push.verdicts.get((update.ref, update.new.hex()))
            if verdict is None:
                raise Forbidden("this update was not checked", at=update.ref)
            if verdict.becomes == "merge":
                return self._merge(push, update, said)
            return self._propose(push, update, said)
        except KgdError as refusal:
            self._daemon.tokens.refused(push.record.holder.id, "push", refusal, push.workspace.id)
            said.append(str(refusal))
            return [f"ng {ref} {refusal.message[:120]}"]

    def _merge(self, push: Push, update: Update, said: list[str]) -> list[str]:
        workspace = push.workspace
        job = adoption.merge(workspace, update.new)

        def checked(staging: Staging, tip: ObjectId) -> Staged[object]:
            self._gate.still_live(push.record)
            return job(staging, tip)

        self._record(push, update.new)
        before = workspace.conflicts.total
        branch_before = workspace.store.ref(workspace.layout.branch)
        workspace.run(checked, alone=True)
        drop_merged(workspace)
        self._note(push, "push", f"{update.new.hex()} to {update.ref}")
        self._daemon.upstream.push(workspace.id)
        if (opened := workspace.conflicts.total - before) > 0:
            said.append(f"{opened} open conflict{'s' if opened > 1 else ''}: both sides are kept, `kgd conflicts`")
        if not wait_until_published(workspace, update.new):
            said.append("the branch follows as soon as the hub's work tree allows it")
        if update.ref == workspace.layout.branch:
            return [f"ok {update.ref}"]
        old = branch_before.hex() if branch_before else ZERO
        return [f"ok {update.ref}", f"option refname {workspace.layout.branch}", f"option old-oid {old}"]

    def _propose(self, push: Push, update: Update, said: list[str]) -> list[str]:
        self._gate.still_live(push.record)
        self._record(push, update.new)
        name = offer(push.workspace, push.record, update.ref, update.new)
        self._note(push, "propose", name)
        said.append(f"waits for review: {name}")
        if name == update.ref:
            return [f"ok {update.ref}"]
        return [
            f"ok {update.ref}",
            f"option refname {name}",
            f"option old-oid {ZERO}",
            f"option new-oid {update.new.hex()}",
        ]

    @staticmethod
    def _record(push: Push, new: ObjectId) -> None:
        """Record whose token pushed these commits, before any ref points to them."""
        workspace = push.workspace
        known = [bytes.fromhex(workspace.tip), *(tip for tip, _ in pending(workspace).values())]
        commits = workspace.store.commits_between(known, new, limit=LIMITS.commits)
        pushers.record(workspace.layout, workspace.store, commits, push.record.holder, workspace.now())

    def _note(self, push: Push, action: str, detail: str) -> None:
        with contextlib.suppress(KgdError):
            self._daemon.tokens.note(push.record.holder.id, action, push.workspace.id, detail)


def wait_until_published(workspace: Workspace, commit: ObjectId) -> bool:
    """Wait until the branch holds the commit, which is durable already; False if the work tree blocks publication."""
    deadline = time.monotonic() + PUBLISH_SECONDS
    while True:
        branch = workspace.store.ref(workspace.layout.branch)
        if branch is not None and workspace.store.is_ancestor(commit, branch):
            return True
        if time.monotonic() > deadline or workspace.health()["publish"].state in ("blocked", "off"):
            return False
        time.sleep(0.01)
