"""Search of the index's texts for names, and the process that runs this search for a daemon."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from kgd.errors import Unavailable
from kgd.index.change_feed import Feed, Indexed
from kgd.index.mentions_file import MentionsFile
from kgd.mentions.matching import found_in, is_part, keys_of
from kgd.workspace import child_process
from kgd.workspace.child_process import Answer, Order
from kgd.workspace.derived.indexed_text import opened_feed

PROGRAM = ("-m", "kgd.mentions.writer")
BATCH, LOOKED_THROUGH = 400, 50
"""Number of texts added, and of texts searched, in one transaction."""
MANY = 500
"""New names above which all texts are searched again, if they are a quarter of all texts too."""
LONGEST_TEXT = 200_000


class MentionsWriter:
    """Carries out orders on the file of mentions, for one thread. Each order is one transaction.

    Args:
        is_stopping: Called between queries, which may take a long time in total.
    """

    def __init__(
        self, feed: Callable[[], Feed], file: MentionsFile, is_stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self._feed, self._file, self._is_stopping = feed, file, is_stopping
        self._names: Loaded | None = None
        """All names, while many texts are searched."""

    def __call__(self, order: Order, begin: Callable[[str], None] = lambda part: None) -> Answer:
        """Carry out an order of `remove`, `add`, `settle` or `search`. Each has the `era` of the feed.

        Raises:
            IndexDamaged: A file is unsound.
            Unavailable: A file cannot be used, or the index was rebuilt.
        """
        feed = self._feed()
        if feed.end().era != order["era"]:
            raise Unavailable("the text index was rebuilt")
        if "search" in order:
            return {"searched": self._search(feed, order["many"])}
        self._names = None
        if "add" in order:
            return {"number": self._add(feed, order["add"])}
        if "remove" in order:
            self._remove(order["remove"], order["gone"])
        else:
            self._settle(feed)
        return {}

    def _remove(self, numbers: Iterable[int], gone: int) -> None:
        """Remove texts, up to the position `gone` in the feed of removals."""
        at = self._file.position()
        assert at is not None
        with self._file.write():
            self._file.remove(numbers)
            self._file.move_to(at._replace(gone=gone))

    def _add(self, feed: Feed, after: int) -> int:
        """Add the next texts and their names; returns the number of the last text, or 0 if there are no more texts."""
        texts, at = feed.stored(after, BATCH), self._file.position()
        if not texts or at is None:
            return 0
        with self._file.write():
            for text in texts:
                self._file.add(text, _part_of(text), keys_of(text))
            self._file.move_to(at._replace(number=texts[-1].number))
        return texts[-1].number

    def _settle(self, feed: Feed) -> None:
        """Queue the older texts that may contain a new name; if there are very many new names, all texts."""
        fresh = self._file.fresh()
        if len(fresh) > MANY and 4 * len(fresh) > self._file.count():
            self._file.settle(None)
            return
        again = set[int]()
        for phrase in fresh:
            if self._is_stopping():
                return
            again.update(feed.with_phrase(phrase))
        self._file.settle(again)

    def _search(self, feed: Feed, many: bool) -> int:
        """Search the next texts for names, and return their number."""
        if not many:
            self._names = None
        elif self._names is None:
            self._names = Loaded(self._file.all_keys())
        numbers = self._file.pending(LOOKED_THROUGH)
        found = {text.number: found_in(_texts(text), self._names or self._file) for text in feed.read(numbers)}
        with self._file.write():
            for number in numbers:
                self._file.set_found(number, found.get(number, ()))
        return len(numbers)


class Loaded:
    """All names in memory, for a large build."""

    def __init__(self, keys: Iterable[tuple[str, str, int]]) -> None:
        self._keys, self._longest = set[str](), dict[str, int]()
        for key, first, size in keys:
            self._keys.add(key)
            if size:
                self._longest[first] = max(size, self._longest.get(first, 0))

    def longest(self, firsts: Collection[str]) -> dict[str, int]:
        return {first: self._longest[first] for first in firsts if first in self._longest}

    def known(self, keys: Collection[str]) -> Collection[str]:
        return {key for key in keys if key in self._keys}


def _part_of(text: Indexed) -> str:
    """The source of a text that is part of a document; mentions of that document in the text are ignored."""
    return text.source or text.origin if is_part(text) or text.origin else ""


def _texts(text: Indexed) -> list[str]:
    return [text.name[:LONGEST_TEXT], text.summary[:LONGEST_TEXT], text.content[:LONGEST_TEXT]]


def main(arguments: list[str]) -> int:
    """`arguments`: the index and its repository as a `Place`, the file of mentions, and its ticket."""
    git_dir, work_tree, index, mentions, ticket = arguments

    def writer() -> MentionsWriter:
        feed = opened_feed(git_dir, work_tree, index)
        return MentionsWriter(lambda: feed, MentionsFile(Path(mentions), is_child=True, ticket=ticket))

    child_process.serve(writer)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
