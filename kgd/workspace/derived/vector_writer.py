"""Writing vectors of the index's texts, and the process that does this for a daemon.

Texts are compared by content, so an unchanged text is not embedded again. A text gets an empty vector if the embedder
cannot embed it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kgd.errors import Limit, Unauthorized, Unavailable
from kgd.index.change_feed import Feed, Indexed
from kgd.index.database import IndexDamaged
from kgd.index.vector_file import Key, Row, VectorFile
from kgd.vectors.choosing import Choice
from kgd.workspace import child_process
from kgd.workspace.child_process import Answer, Order
from kgd.workspace.derived.indexed_text import opened_feed

if TYPE_CHECKING:  # numpy and models are expensive for a daemon without texts
    from kgd.vectors.embedder import Embedder

PROGRAM = ("-m", "kgd.workspace.derived.vector_writer")
SHORTENED = 1_000
"""Maximum characters to send of a text that an embedder refused."""
_PROBE = "text"
"""A text that an embedder has no reason to refuse."""

T = TypeVar("T")


class VectorWriter:
    """Embeds texts and stores their vectors, for one thread.

    Args:
        embedder: The embedder of a choice.
        feed: The feed of the text index.
        file: The file of vectors. Raises IndexDamaged if it is gone.
        permitted: Entered around each write; raises if writing must stop. Also called before each use of the embedder.
    """

    def __init__(
        self,
        embedder: Callable[[str], Embedder],
        feed: Callable[[], Feed],
        file: Callable[[], VectorFile],
        permitted: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._embedder, self._feed, self._file, self._permitted = embedder, feed, file, permitted
        self._dim = 0

    def __call__(self, order: Order, begin: Callable[[str], None] = lambda part: None) -> Answer:
        """Embed the next batch of texts, in one transaction.

        The order has the `choice` of the embedder, the `era` of the feed, the number `after` which texts are new, and
        the length `dim` of a vector, 0 if unknown. The answer has the last text's number `upto`, or nothing if there
        are no more texts.

        Raises:
            IndexDamaged: The file of vectors is unsound.
            KgdError: The index, the embedder or the disk failed; nothing was written.
        """
        feed, embedder, self._dim = self._feed(), self._embedder(order["choice"]), order["dim"]
        if of_feed(feed, Feed.end).era != order["era"]:
            raise Unavailable("the text index was rebuilt")
        texts = of_feed(feed, lambda feed: feed.stored(order["after"], embedder.batch))
        if not texts:
            return {}
        spoken = {(one.uri, one.origin): spoken_text(one) for one in texts}
        numbers = {(one.uri, one.origin): one.number for one in texts}
        digests = {
            key: hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
            for key, text in spoken.items()
        }
        known = self._file().digests(embedder.id, spoken)
        fresh = [key for key in spoken if known.get(key) != digests[key]]
        made = dict.fromkeys(fresh, b"")
        asked = {key: spoken[key] for key in fresh if spoken[key]}
        made |= self._vectors(embedder, asked)
        rows = [Row(key, numbers[key], digests[key], made[key]) for key in fresh]
        same = {key: number for key, number in numbers.items() if key not in made}
        with self._permitted():
            self._file().store(embedder.id, rows, same, texts[-1].number, self._dim)
        touched = [digests[key] for key in fresh] + [known[key] for key in fresh if key in known]
        return {
            "upto": texts[-1].number,
            "texts": len(texts),
            "fresh": len(fresh),
            "added": len([key for key in fresh if key not in known]),
            "embedded": len(asked),
            "lowest": min(touched, default=b"").hex(),
            "dim": self._dim,
        }

    def _vectors(self, embedder: Embedder, texts: dict[Key, str]) -> dict[Key, bytes]:
        """Vectors of texts; a text that is refused even by itself gets an empty vector."""
        found = self._asked(embedder, texts)
        if len(found) < len(texts):
            self._asked_once(embedder, [_PROBE])  # refused too: the texts are not the reason
        return {key: found.get(key, b"") for key in texts}

    def _asked(self, embedder: Embedder, texts: dict[Key, str]) -> dict[Key, bytes]:
        """Vectors of texts, except for texts refused both whole and shortened."""
        if not texts:
            return {}
        try:
            return dict(zip(texts, self._asked_once(embedder, list(texts.values())), strict=True))
        except Limit:
            if len(texts) > 1:
                keys, middle = list(texts), len(texts) // 2
                halves = (keys[:middle], keys[middle:])
                return {k: v for half in halves for k, v in self._asked(embedder, {k: texts[k] for k in half}).items()}
            [(key, text)] = texts.items()
            return self._asked(embedder, {key: text[:SHORTENED]}) if len(text) > SHORTENED else {}

    def _asked_once(self, embedder: Embedder, texts: Sequence[str]) -> list[bytes]:
        from kgd.vectors.embedder import checked, to_bytes

        with self._permitted():
            pass
        vectors = checked(embedder.embed(texts, "document"), len(texts), self._dim)
        self._dim = vectors.shape[1]
        return to_bytes(vectors)


def spoken_text(text: Indexed) -> str:
    """The text to embed, without the name of a message, which is only its time."""
    name = "" if text.type == "message" else text.name
    summary = "" if text.content.startswith(text.summary.rstrip("…").rstrip()) else text.summary
    return "\n".join(filter(None, (name.strip(), summary.strip(), text.content.strip())))


def of_feed(feed: Feed, asked: Callable[[Feed], T]) -> T:
    """Read the feed. Another process rebuilds a damaged text index, so the damage is raised here as `Unavailable`."""
    try:
        return asked(feed)
    except IndexDamaged as error:
        raise Unavailable("the text index is being rebuilt", next="Embedding continues by itself.") from error


def main(arguments: list[str]) -> int:
    """`arguments`: the index and its repository as a `Place`, the file of vectors, and its ticket."""
    git_dir, work_tree, index, vectors, ticket = arguments
    embedders: dict[str, Embedder] = {}

    def embedder(choice: str) -> Embedder:
        if choice not in embedders:
            from kgd.vectors.configured import opened

            embedders[choice] = opened(Choice.read(choice), _no_secret)
        return embedders[choice]

    def writer() -> VectorWriter:
        feed = opened_feed(git_dir, work_tree, index)
        file = VectorFile(Path(vectors), is_child=True, ticket=ticket)
        return VectorWriter(embedder, lambda: feed, lambda: file)

    child_process.serve(writer)
    return 0


def _no_secret(reference: str) -> str:
    raise Unauthorized("the process that embeds has no credentials", at=reference[:40])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
