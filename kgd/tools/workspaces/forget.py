"""The `forget` tool: remove a leaked secret from the whole history, with the names and tags made from it."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.codec import bulk, documents, front_matter
from kgd.daemon import jobs
from kgd.daemon.syncing import Syncing
from kgd.errors import Advice, Do, KgdError, NotFound, Unavailable
from kgd.exchange.orchestrator_journal import words_in_id
from kgd.git.refs import NOTES, RefUpdate
from kgd.git.remote_errors import LostRace
from kgd.git.remote_settings import Remote
from kgd.ingest.documents import name_from
from kgd.ingest.message_ingest import title_from, title_in_uri
from kgd.memories.keywords import names_of, terms
from kgd.model.node import Json, Node, strings_in
from kgd.model.uri import encode_segment, name_of, path_of, slug
from kgd.tools import addressing
from kgd.tools.operation import Command, Hints, Operation, option
from kgd.tools.parameters import WorkspaceParams
from kgd.tools.session import Session
from kgd.workspace import forgetting
from kgd.workspace.forgetting import Forgotten
from kgd.workspace.memory_files import topic_of
from kgd.workspace.workspace import Workspace

PROPOSALS = 8
"""Largest number of proposals to name."""
Refs = Mapping[str, bytes]
"""A remote's refs, by name."""


class ForgetParams(WorkspaceParams):
    secret: Annotated[str, Field(description="the text to remove, line by line")]
    reason: Annotated[str, Field(description="reason for the record; must not contain the secret")] = ""
    push: Annotated[bool, Field(description="replace the history of the remotes too")] = False
    dry_run: bool = False


class RemoteResult(TypedDict):
    name: str
    pushed: bool
    reason: NotRequired[str]


class ForgetResult(TypedDict):
    """`files` held the secret, in any commit; `rewritten` counts commits. `to_do` lists the remaining steps."""

    workspace: str
    rewritten: int
    files: list[str]
    before: str
    commit: NotRequired[str]
    signed: NotRequired[bool]
    remotes: list[RemoteResult]
    to_do: list[str]
    dry_run: NotRequired[bool]


def forget(session: Session, params: ForgetParams) -> ForgetResult:
    """Remove a secret from the content, names and messages of every commit. Calls for the workspace wait meanwhile.

    Raises:
        NotFound: The workspace is unknown, or nothing in it contains the secret.
        Unavailable: Several hubs share the workspace, its git state does not allow it, or a remote has other commits.
        KgdError: As `kgd.workspace.forgetting.forget`.
    """
    daemon = session.daemon
    if daemon.shared:
        raise Unavailable(
            "several hubs share this workspace",
            next="Stop them, run `kgd forget --push` in a clone of the upstream, delete the hubs' copies, and start "
            "them again.",
        )
    workspace = addressing.choose(session, params.workspace)
    if jobs.unfinished(workspace.layout):
        raise Unavailable(
            "an import is running", next=Advice(Do("status"), " shows it. Repeat the command when it is done.")
        )
    workspace.settle()
    id, tip = workspace.id, bytes.fromhex(workspace.tip)
    syncing = daemon.syncing(workspace)
    remotes = [one.remote for one in syncing.machines()]
    is_pushed = params.push and not params.dry_run
    replaced = forgetting.replaced_tips(workspace.layout) if is_pushed and remotes else set()
    there = _in_step(syncing, remotes, {tip, *replaced}) if is_pushed else {}
    is_late = any(there[remote.name][remote.ref] in replaced for remote in remotes if remote.name in there)
    found = _removed(session, workspace, params, is_late=is_late)
    results = _push(daemon.syncing(daemon.workspace(id)), remotes, there, found) if there else []
    answer: ForgetResult = {
        "workspace": id,
        "rewritten": found.rewritten,
        "files": found.paths,
        "before": found.before,
        "remotes": results,
        "to_do": _to_do(remotes, results, there, found),
    }
    if params.dry_run:
        return {**answer, "dry_run": True, "to_do": []}
    return {**answer, "commit": found.record, "signed": found.signed}


def _removed(session: Session, workspace: Workspace, params: ForgetParams, *, is_late: bool) -> Forgotten:
    """Remove the secret here. If a remote still has a tip that an earlier removal replaced (`is_late`), nothing here
    has to contain the secret."""
    daemon, author, key, tip = session.daemon, session.author(workspace), workspace.signing, workspace.tip
    id, now = workspace.id, workspace.now()
    with daemon.set_aside(workspace) as layout:
        try:
            return forgetting.forget(
                layout,
                params.secret,
                author,
                params.reason,
                now,
                key,
                DerivedTexts(),
                rehearse=params.dry_run,
                progress=lambda done, message: session.progress(done, None, message),
            )
        except NotFound:
            if not is_late:
                raise
            return Forgotten(id, 0, [], tip)


def _in_step(syncing: Syncing, remotes: list[Remote], known: Collection[bytes]) -> dict[str, Refs]:
    """The refs of every remote. Raises Unavailable if one has another tip than these, which a push would drop."""
    there = dict[str, Refs]()
    for remote in remotes:
        transport = syncing.transport(remote.name)
        listed = {**transport.ls(remote.ref, remote.proposals), **transport.ls(NOTES)}
        if listed.get(remote.ref) not in known:
            raise Unavailable(
                f"the remote '{remote.name}' does not have the same commits",
                at=remote.url.text,
                next=Advice("Run ", Do("sync"), ", resolve what it reports, and repeat the command."),
            )
        there[remote.name] = listed
    return there


def _push(syncing: Syncing, remotes: list[Remote], there: Mapping[str, Refs], found: Forgotten) -> list[RemoteResult]:
    """Replace the history of each remote, if it still has the commits that were seen before."""
    results, tip = list[RemoteResult](), bytes.fromhex(found.record or found.before)
    for remote in remotes:
        listed = there[remote.name]
        new = {name: id for name, (_, id) in found.moved.items()}
        also = list[RefUpdate]()
        for name, old in listed.items():
            here = f"refs/kgd/in/{remote.name}/proposals/{name[len(remote.proposals) :]}"
            to = new.get(NOTES if name == NOTES else here, "")
            if name != remote.ref and to:
                also.append(RefUpdate(name, old, bytes.fromhex(to)))
        try:
            if listed[remote.ref] != tip:
                syncing.transport(remote.name).push(remote.ref, listed[remote.ref], tip, also)
        except (KgdError, LostRace) as error:
            results.append({"name": remote.name, "pushed": False, "reason": str(error)})
        else:
            results.append({"name": remote.name, "pushed": True})
    return results


def _to_do(
    remotes: list[Remote], results: list[RemoteResult], there: Mapping[str, Refs], found: Forgotten
) -> list[str]:
    """The steps for people, most urgent first."""
    pushed = {one["name"] for one in results if one["pushed"]}
    steps = ["Revoke the secret: people and agents that have read it can still use it."]
    for remote in remotes:
        if remote.name not in pushed:
            seen = there[remote.name][remote.ref].hex() if remote.name in there else found.before
            new = found.record or found.before
            command = f"git push --force-with-lease={remote.ref}:{seen} {remote.name} {new}:{remote.ref}"
            steps.append(
                f"The remote '{remote.name}' still has the secret. Ask its owner to run `kgd forget` there, "
                f"or to allow `{command}`."
            )
        elif older := _older_proposals(remote, there[remote.name], found):
            steps.append(
                f"Proposals on the remote '{remote.name}' may still have the secret: {', '.join(older[:PROPOSALS])}. "
                "Delete them there, and ask their authors to submit them again."
            )
    if remotes:
        steps += [
            "Replace every other clone: `kgd sync` there refuses to merge, and shows the command.",
            "The server of a remote may keep old commits in caches, proposals and backups: ask its operator.",
        ]
    return [*steps, "Backups, and the sessions of agents that have read the secret, still contain it."]


def _older_proposals(remote: Remote, listed: Refs, found: Forgotten) -> list[str]:
    """The remote's proposals that this push did not replace, because an earlier removal rewrote them here."""
    if listed[remote.ref].hex() == found.before:
        return []
    return [name[len(remote.proposals) :] for name in sorted(listed) if name.startswith(remote.proposals)]


FORGET = Operation(
    name="forget",
    title="Remove a secret",
    description="Removes a leaked secret from the whole history, with a record of the removal.",
    hints=Hints(destructive=True, idempotent=True),
    run=forget,
    commits={"forget": "removed a secret"},
    commands=(
        Command(
            "Care",
            "remove a leaked secret from the whole history; reads it from standard input",
            (
                option("--file", "read the secret from FILE", "FILE"),
                option("-m --reason", "reason for the record", "TEXT", dest="reason"),
                option("--push"),
            ),
            place=66,
            examples=(("kgd forget < secret.txt", "remove the secret in this file; with --dry-run, only look"),),
            print="printing_running.forget",
            secret="Pipe it in, as in `kgd forget < FILE`, or type it when you are asked.",
        ),
    ),
)


Change = Callable[[str], str]
_NODE, _MEMORY, _PART = b"uri: ", b"---\n", (b"source: ", b"nodes:")


class DerivedTexts:
    """Derived texts of one secret.

    `learn` gets every file with the secret. Then `tags_removed` and, on the text without the secret, `renamed` remove
    the derived texts. The result does not depend on the order of files.
    """

    def __init__(self) -> None:
        self._names = dict[bytes, bytes]()
        self._tags = dict[str, set[str]]()
        self._old: re.Pattern[bytes] | None = None
        self._uris: re.Pattern[bytes] | None = None

    @staticmethod
    def spellings(line: str) -> set[str]:
        """The whole secret as it is spelled in names and in tags. A plain word is left out, since it also occurs where
        it is not the secret."""
        whole = {line.lower(), slug(line), *(term for term in terms(line) if slug(term) == slug(line))}
        return {one for one in whole if not one.isalpha()}

    def learn(self, body: bytes, without: Change, blank: Change) -> None:
        """Add the texts that kgd derived from this file.

        Args:
            body: A file with the secret; one that cannot be read is ignored.
            without: Replaces the secret in a text.
            blank: Replaces the secret with a space.
        """
        self._old = self._uris = None
        with contextlib.suppress(KgdError):
            if body.startswith(_NODE):
                self._learn(documents.decode(body), without, blank)
            elif body.startswith(_PART):
                for node in bulk.decode(body).nodes:
                    self._learn(node, without, blank)
            elif body.startswith(_MEMORY):
                memory = front_matter.decode(body)
                self._learn_tags(str(memory.front.get("id")), memory.prose, blank)

    def tags_removed(self, body: bytes) -> bytes:
        """A file without the tags that were derived from the secret."""
        if self._uris is None:
            self._uris = re.compile(b"|".join(re.escape(uri.encode()) for uri in sorted(self._tags)) or b"(?!)")
        if self._tags and self._uris.search(body):
            with contextlib.suppress(KgdError):
                if body.startswith(_NODE):
                    return self._of_node(body)
                if body.startswith(_MEMORY):
                    return self._of_memory(body)
        return body

    def renamed(self, body: bytes) -> bytes:
        """A text or a name without the secret, with new names in place of derived names."""
        if self._old is None:
            names = b"|".join(map(re.escape, sorted(self._names, key=len, reverse=True)))
            self._old = re.compile(rb"(?<![0-9A-Za-z\x80-\xff])(?:%b)(?![0-9A-Za-z\x80-\xff])" % (names or b"(?!)"))
        return self._old.sub(lambda found: self._names[found[0]], body)

    # ---- inside

    def _learn(self, node: Node, without: Change, blank: Change) -> None:
        self._learn_tags(node.uri, "\n".join([node.name, node.summary, node.content, *strings_in(node.data)]), blank)
        own = {name_of(uri) for uri in (node.uri, *node.aliases)}
        for text in (node.content, node.summary, node.name):
            old, other = names_of(text), names_of(blank(text))
            # always to a name with a hash: other facts may begin with the same words
            plain, hashed = names_of(without(text))[:2], names_of(without(text))[2:]
            for one, was, to in zip(old, other, (*hashed, *hashed), strict=True):
                is_clean = any(name.startswith(slug(without(one))) for name in plain)
                if one in own and one != was and not is_clean:
                    self._names.setdefault(without(one).encode(), to.encode())
            for derive in (title_from, lambda text: title_in_uri(title_from(text)), name_from, words_in_id):
                if derive(text) != derive(blank(text)):
                    self._rename(derive(text), derive(without(text)), without)
        path = path_of(node.uri)
        self._rename(topic_of(path), topic_of(without(path)), without)

    def _learn_tags(self, uri: str, text: str, blank: Change) -> None:
        if gone := terms(text) - terms(blank(text)):
            self._tags.setdefault(uri, set()).update(gone)

    def _rename(self, old: str, new: str, without: Change) -> None:
        """Rename a text that was cut within the secret; the whole secret is already replaced."""
        if old and new and not new.startswith(old) and without(old) == old:
            for spell in (str, lambda text: json.dumps(text)[1:-1], lambda text: encode_segment(text.encode())):
                self._names.setdefault(spell(old).encode(), spell(new).encode())

    def _of_node(self, body: bytes) -> bytes:
        node = documents.decode(body)
        gone = self._gone(node.uri, *node.aliases)
        kept = tuple(tag for tag in node.tags if tag not in gone)
        return body if kept == node.tags else documents.rewrite(body, replace(node, tags=kept))

    def _of_memory(self, body: bytes) -> bytes:
        memory = front_matter.decode(body)
        gone = self._gone(str(memory.front.get("id")))
        kept: list[Json] = [tag for tag in memory.tags if tag not in gone]
        return (
            body
            if len(kept) == len(memory.tags)
            else front_matter.rewrite(memory, {**memory.front, "tags": kept or None})
        )

    def _gone(self, *uris: str) -> set[str]:
        return set[str]().union(*(self._tags.get(uri, ()) for uri in uris))
