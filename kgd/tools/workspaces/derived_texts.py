"""Names, titles and tags that kgd derived from a text with a secret, for `forget`.

The same functions that derived them are called again, once with the text as it was and once without the secret. So a
name that contains only a part of the secret, or its words in lower case, is found too.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import replace

from kgd.codec import bulk, documents, memories
from kgd.errors import KgdError
from kgd.exchange.orchestrator_journal import words_in_id
from kgd.ingest.documents import name_from
from kgd.ingest.message_ingest import title_from, title_in_uri
from kgd.memories.keywords import names_of, terms
from kgd.model.node import Json, Node, strings_in
from kgd.model.uri import encode_segment, name_of, path_of, slug
from kgd.workspace.files.memory_files import topic_of

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
                memory = memories.decode(body)
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
        memory = memories.decode(body)
        gone = self._gone(str(memory.front.get("id")))
        kept: list[Json] = [tag for tag in memory.tags if tag not in gone]
        return (
            body if len(kept) == len(memory.tags) else memories.rewrite(memory, {**memory.front, "tags": kept or None})
        )

    def _gone(self, *uris: str) -> set[str]:
        return set[str]().union(*(self._tags.get(uri, ()) for uri in uris))
