"""Nodes of a conversation: a thread, its messages, and replies between them.

Messages are added and never removed, even if an export is shorter than the last one. A message whose text changed under
the same id is replaced and reported.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from kgd.codec import documents
from kgd.errors import Forbidden, KgdError, Limit
from kgd.ingest import message_nodes
from kgd.ingest.conversation_values import Conversation, SourceMessage, Status, line
from kgd.ingest.kind import Taken
from kgd.ingest.message_nodes import LAST, REPLIED_BY, Placed, as_node, fitting, messages_of
from kgd.model.change import Edit, Upsert, upsert_of
from kgd.model.node import Json, Node, Relation, Source, cut_at_word
from kgd.model.uri import Uri, build, slug
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.secrets import refuse_secrets, secret_in

FIRST, PART_OF = "has_message", "part_of"
"""Relations from a thread to its first message, and from each message to its thread."""
STEP = 0.5
"""Weight of these relations, as for a document and its chunks."""
SOURCE = "conversation"
"""Source type of a thread and its messages."""
COMMIT_EDITS, COMMIT_CHARACTERS = 1_900, 8_000_000
MOST_REPLIES = 1_000
"""Largest number of replies to one message; a node has no room for more. Later ones follow the previous message."""
PARTICIPANTS = 200
EVERY = 1 << 30


def take(
    workspace: Workspace,
    conversation: Conversation,
    source: str,
    *,
    thread: Uri | None = None,
    now: int | None = None,
    sees: Callable[[Uri], bool] = lambda uri: True,
) -> Taken:
    """The changes of a conversation to its thread. O(conversation).

    Args:
        source: Name of the source, used for a conversation without a name.
        thread: URI of the conversation's thread; by default the source's existing thread, otherwise a new thread named
            after the title.
        now: Unix milliseconds of a live conversation; see `message_nodes.place`.
        sees: Whether the caller may read a thread.

    Raises:
        Forbidden: The caller may not read the thread.
        Limit: More than a million messages have the same millisecond.
    """
    found = _Ingest(workspace, conversation, source, thread, now, sees)
    counts = {"messages_new": found.new, "messages_changed": found.changed, "messages_unchanged": found.known}
    return Taken(found.thread, tuple(_in_commits(found.edits)), counts, tuple(found.trouble))


def _in_commits(edits: Sequence[Edit]) -> Iterator[tuple[Edit, ...]]:
    """The edits in batches, limited by number and size of text."""
    batch: list[Edit] = []
    size = 0
    for edit in edits:
        length = len(edit.content or "") if isinstance(edit, Upsert) else 0
        if batch and (len(batch) >= COMMIT_EDITS or size + length > COMMIT_CHARACTERS):
            yield tuple(batch)
            batch, size = [], 0
        batch.append(edit)
        size += length
    if batch:
        yield tuple(batch)


def thread_of(workspace: Workspace, source: str, title: str, name: str = "") -> Uri:
    """The existing thread of a source, or the URI of a new one.

    The new URI has `name` if it is readable and unused; otherwise it has the words of the title and a hash of the
    source.
    """
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    usual = [text for text in (title_in_uri(name), f"{title_in_uri(title)}-{digest}".strip("-")) if text]
    uris = [build("thread", workspace.id, [text.encode()]) for text in usual]
    stored = [workspace.readable(uri) for uri in uris]
    known = next((node.uri for node in stored if node and node.source and node.source.key == (SOURCE, source)), None)
    known = known or next(
        (uri for uri in workspace.text().by_source(SOURCE, source) if uri.startswith("thread:")), None
    )
    free = (uri for uri, node in zip(uris, stored, strict=True) if node is None or node.source is None)
    return known or next(free, uris[-1])


def title_in_uri(title: str) -> str:
    """The part of a thread's URI that is made from its title."""
    return slug(title)[:60].strip("-")


def _is_chosen(id: str) -> bool:
    """Whether a person may have chosen this name: not a UUID, a number or a path."""
    return bool(re.fullmatch(r"[^\W\d][\w .@-]{0,59}", id)) and not re.fullmatch(r"[0-9a-fA-F-]{16,}|\w{20,}", id)


class _Ingest:
    """The edits that bring a thread up to date with a conversation, and counts of its messages; all the work is done on
    construction.

    The last edit is the thread's `hash`, which marks the conversation as complete. The edits may be written in several
    commits; after any of them, ingesting the conversation again returns the remaining edits.
    """

    def __init__(
        self,
        workspace: Workspace,
        conversation: Conversation,
        source: str,
        thread: Uri | None,
        now: int | None,
        sees: Callable[[Uri], bool],
    ) -> None:
        self.edits: list[Edit] = []
        self.new = self.changed = self.known = 0
        self.trouble: list[str] = []
        if secret_in(conversation.title):
            self.trouble.append("the title contains text that looks like a secret and was left out")
            conversation = replace(conversation, title="")
        id = line(conversation.id or source, 1_000) or _nameless(conversation)
        self._workspace, self._conversation, self._source = workspace, conversation, Source(SOURCE, id)
        name = id if _is_chosen(id) else ""
        if not conversation.id:  # it is named after its file
            name = conversation.title
        self._title = conversation.title or name or _first_words(conversation.messages)
        self.thread = workspace.graph.resolve(thread) if thread else thread_of(workspace, id, self._title, name)
        if not sees(self.thread):
            raise Forbidden("this token may not read the thread of this conversation", next="Give another uri.")
        self._prefix = messages_of(workspace, self.thread)
        self._gone = dict(conversation.gone)
        self._own: dict[str, Uri] = {}
        self._closing: dict[str, str] = {}
        self._of_name: dict[str, Uri] | None = None
        self._digest = "" if now is not None else digest(conversation)
        self._before = workspace.node(self.thread)
        if self._before is not None and self._digest and self._before.data.get("hash") == self._digest:
            self.known = len(conversation.messages)
            return
        messages = [piece for one in self._sound(self._once(conversation.messages)) for piece in self._fitting(one)]
        self._write(message_nodes.place(messages, self._stored(messages, is_live=now is not None), now))

    # ---- input

    def _once(self, messages: Sequence[SourceMessage]) -> list[SourceMessage]:
        """The first message of each id."""
        seen: dict[str, SourceMessage] = {}
        kept = []
        for one in messages:
            before = seen.setdefault(one.id, one) if one.id else one
            if before is one:
                kept.append(one)
            elif (before.text, before.at) != (one.text, one.at):
                self.trouble.append(f"{one.place}: left out, because an earlier message has the same id")
        return kept

    def _sound(self, messages: Sequence[SourceMessage]) -> list[SourceMessage]:
        """The messages without secrets. Messages with secrets are reported, and replies skip over them."""
        kept = []
        for one in messages:
            try:
                refuse_secrets(self._node("0", one))
                kept.append(one)
            except KgdError as refused:
                self.trouble.append(f"{one.place or one.kind}: {refused.message}; left out")
                if one.id:
                    self._gone[one.id] = one.parent
        return kept

    def _fitting(self, one: SourceMessage) -> list[SourceMessage]:
        """The message, or the pieces of a message that is too long for a node."""
        pieces = fitting(one, lambda message: _size(self._node("0", message)))
        if len(pieces) > 1:
            self.trouble.append(f"{one.place or one.kind}: too long for one message, split into {len(pieces)}")
        return pieces

    def _node(self, id: str, one: SourceMessage) -> Node:
        node = as_node(Uri(f"{self._prefix}{id}"), one, self._source)
        return replace(node, relations=(Relation(PART_OF, self.thread, STEP),))

    def _stored(self, messages: Sequence[SourceMessage], *, is_live: bool) -> list[str]:
        """The relevant ids of the thread: from the conversation's time span, from the thread's end, or all."""
        times = [one.at for one in messages if one.at is not None]
        begin, end, count = "", LAST, EVERY
        if times and len(times) == len(messages):
            begin, end = message_nodes.beginning(min(times)), message_nodes.beginning(max(times) + 1)
        elif is_live and not any(one.at is not None or one.id for one in messages):
            count = len(messages)
        found = self._workspace.text().between(self._prefix + begin, self._prefix + end, count, backward=True)
        return [uri.removeprefix(self._prefix) for uri in reversed(found)]

    # ---- replies

    def _answered(self, one: SourceMessage, last: Uri | None) -> Uri | None:
        """The message that this message answers; None for the first message of a thread or of a branch."""
        parent = _followed(one.parent, self._gone) if one.parent else one.parent
        if parent == "":
            return None
        if parent:
            end = parent if one.closes == parent else _followed(parent, self._closing) or parent
            found = self._own.get(end) or self._own.get(parent) or self._elsewhere(end)
            if found is not None:
                return found
        return last

    def _elsewhere(self, id: str) -> Uri | None:
        """A message with this id from an earlier ingest. The first call is O(thread)."""
        if self._of_name is None:
            found = self._workspace.text().between(self._prefix, self._prefix + LAST, EVERY)
            self._of_name = {message_nodes.name_in(uri.removeprefix(self._prefix)): uri for uri in found}
        return self._of_name.get(message_nodes.name_of(id))

    # ---- edits

    def _write(self, placed: Sequence[Placed]) -> None:
        if not placed and self._before is None and not self._conversation.title:
            return
        for one in placed:
            if one.message.id:
                self._own[one.message.id] = Uri(self._prefix + one.id)
            if one.message.closes:
                self._closing[one.message.closes] = one.message.id
        made: dict[Uri, Node] = {}
        answers: dict[Uri, list[Relation]] = {}
        last = self._newest_before(placed[0]) if placed else None
        head = self._thread(placed, is_first=last is None)
        for one in placed:
            node = self._node(one.id, one.message)
            stored = None if one.is_new else self._workspace.readable(node.uri)
            if one.is_new:
                made[node.uri] = node
                answered = self._answered(one.message, last)
                if answered is not None:
                    replies = len(self._workspace.graph.out(answered)) + len(answers.get(answered, ()))
                    answered = last if replies >= MOST_REPLIES else answered
                if answered is not None and answered != node.uri:
                    answers.setdefault(answered, []).append(Relation(REPLIED_BY, node.uri, STEP))
            elif stored is None:
                self.trouble.append(f"{one.message.place or one.id}: its file is damaged; `kgd fsck` reports it")
            elif stored.content != node.content:
                self._reworded(one, node)
            else:
                self.known += 1
            last = node.uri
        # A relation is written with its target message or before it: after a crash, the next ingest adds the missing
        # message, but would not check one that exists.
        old = (Upsert(uri, relations=tuple(found)) for uri, found in answers.items() if uri not in made)
        new = (node.with_relation(*answers.get(node.uri, ())) for node in made.values())
        messages = [*old, *map(upsert_of, new)]
        self.new = len(made)
        head_first = [head] if head != Upsert(self.thread) else []
        self.edits[:0] = [*head_first, *messages]
        if self._digest:
            self.edits.append(Upsert(self.thread, data={"hash": self._digest}))

    def _reworded(self, one: Placed, node: Node) -> None:
        self.changed += 1
        self.trouble.append(f"{one.message.place or one.id}: the text has changed and was replaced")
        version = self._workspace.version(self._workspace.path(node.uri))
        self.edits.append(Upsert(node.uri, content=node.content, expect_version=version))

    def _newest_before(self, first: Placed) -> Uri | None:
        found = self._workspace.text().between(self._prefix, self._prefix + first.id, 1, backward=True)
        return found[0] if found else None

    def _thread(self, placed: Sequence[Placed], *, is_first: bool) -> Upsert:
        """The edit of the thread itself, without fields that are already stored."""
        before, conversation = self._before, self._conversation
        known = before.data.get("participants") if before else None
        names = [name for name in known if isinstance(name, str)] if isinstance(known, list) else []
        spoke = [one.message.sender for one in placed if one.message.kind not in ("tool", "system")]
        participants = list(dict.fromkeys([*names, *conversation.participants, *spoke]))[:PARTICIPANTS]
        data: dict[str, Json] = {"participants": participants} if participants != names else {}
        status = before.data.get("status") if before else None
        wanted = conversation.status or (status if status in get_args(Status) else "open")
        if status != wanted:
            data["status"] = wanted
        if before is not None and before.source is not None:
            return Upsert(self.thread, data=data)
        first = next((one.message.text for one in placed if one.message.kind == "user"), "")
        begins = (Relation(FIRST, Uri(self._prefix + placed[0].id), STEP),) if placed and is_first else ()
        title = self._title or "conversation"
        node = Node(self.thread, "thread", title, cut_at_word(first), data=data, relations=begins)
        try:
            refuse_secrets(node)
        except KgdError as refused:
            self.trouble.append(f"{refused.message} of the thread; it was named 'conversation' instead")
            node = replace(node, name="conversation", summary="", data={"status": wanted})
        if before is not None:  # notes about the thread may be older than its first message
            node = replace(node, name=before.name or node.name, summary=before.summary or node.summary)
        return upsert_of(replace(node, source=self._source))


def digest(conversation: Conversation) -> str:
    """Digest of a conversation; if it is equal, nothing needs to be compared."""
    found = hashlib.sha256()
    about = (conversation.title, conversation.status or "", *conversation.participants)
    for text in about:
        found.update(text.encode("utf-8", "surrogatepass") + b"\0")
    for one in conversation.messages:
        calls = [text for call in one.tool_calls for text in (call.id, call.name, call.arguments)]
        fields = (one.id, str(one.at), one.kind, one.sender, one.parent or "", one.text, *calls)
        found.update("\0".join(fields).encode("utf-8", "surrogatepass") + b"\1")
    return found.hexdigest()


def _nameless(conversation: Conversation) -> str:
    """Id of a conversation without a name: a hash of its first message, which stays the same when the conversation
    grows."""
    first = conversation.messages[0] if conversation.messages else None
    parts = (first.id, str(first.at), first.sender, first.text) if first else ()
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _first_words(messages: Sequence[SourceMessage]) -> str:
    """The title of a thread that has none: its first words."""
    return title_from(next((one.text for one in messages if one.kind == "user"), messages[0].text if messages else ""))


def title_from(text: str) -> str:
    """The beginning of a message as the title of its thread."""
    return cut_at_word(line(text, 400), 60).rstrip("…")


def _size(node: Node) -> int:
    """Bytes of the node's file, even if it is too large."""
    try:
        return len(documents.encode(node))
    except Limit:
        return EVERY


def _followed(id: str, to: Mapping[str, str | None]) -> str | None:
    """The end of a chain of ids; if the chain is a cycle, the id that closes it."""
    seen, at = set[str](), id
    while at in to and at not in seen:
        seen.add(at)
        there = to[at]
        if not there:
            return there
        at = there
    return at
