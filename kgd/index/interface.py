"""This file is where it is defined what an index must do for search, whatever it keeps its texts in.

`kgd.index.text` does it with SQLite. Another one, such as a server's database, takes its place by passing the suite in
tests/index/test_contract.py; how it ranks texts is its own affair, what it finds and in which order of classes is not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from kgd.model.uri import Uri

if TYPE_CHECKING:
    from kgd.index.ranking import Found, Hit
    from kgd.index.text import Doc, FileDoc, Gathered


class Index(Protocol):
    """Full text of one workspace.

    Any thread may ask and write. A write is seen as a whole from the moment that it returns, or after an error not at
    all. Any text is a question; none is an error. Answers depend on what is in the index, not on how it came there.
    """

    def apply(self, upserts: Iterable[Doc], removals: Iterable[Uri] = (), *, tree: str | None = None) -> None:
        """Have these texts in place of those of the same URI, and take others out; unknown ones are fine."""

    def apply_tree(self, file: Uri, docs: Sequence[Doc]) -> None:
        """Have these in place of all that was read from one file of the code tree, beside what is stored."""

    def apply_files(self, upserts: Iterable[FileDoc], removals: Iterable[Uri] = ()) -> None:
        """The same for bare files, which are found by their path."""

    def tree(self) -> str | None:
        """What `apply` was last told that the index reflects."""

    def count(self) -> int: ...

    def search(
        self,
        query: str,
        *,
        types: Collection[str] | None = None,
        tags: Collection[str] | None = None,
        namespace: str = "",
        stored: bool = False,
        limit: int = 10,
        offset: int = 0,
        doubted: Collection[Uri] = (),
        sees: Callable[[Uri], bool] | None = None,
    ) -> list[Hit]:
        """Nodes with all words, then with some, then bare files; scores fall.

        `stored`, here and below: without what was only read from the code tree.
        `sees`, here and below: what the answer may depend on; the rest is as if it were not there.
        """

    def gather(
        self,
        query: str,
        *,
        types: Collection[str] | None = None,
        tags: Collection[str] | None = None,
        namespace: str = "",
        stored: bool = False,
        limit: int = 1_000,
        surrounded: bool = True,
        sees: Callable[[Uri], bool] | None = None,
    ) -> Gathered:
        """What has words of the question; documents and messages also with what they belong to."""

    def bare_files(
        self,
        query: str,
        *,
        types: Collection[str] | None = None,
        namespace: str = "",
        limit: int = 10,
        sees: Callable[[Uri], bool] | None = None,
    ) -> list[Found]:
        """Files whose path has words of the question."""

    def explain(self, query: str, page: Sequence[Found]) -> list[Hit]:
        """Snippet and reason for each of these."""

    def by_people(self, names: Sequence[str], ids: Collection[int]) -> set[int]:
        """Of these texts those in which somebody of these names speaks."""

    def passing(
        self,
        uris: Collection[Uri],
        *,
        types: Collection[str] | None = None,
        tags: Collection[str] | None = None,
        namespace: str = "",
        stored: bool = False,
    ) -> list[Found]:
        """Of these nodes those that pass the filters, by URI."""

    def few_in(
        self,
        *,
        types: Collection[str] | None = None,
        tags: Collection[str] | None = None,
        namespace: str = "",
        stored: bool = False,
    ) -> list[Uri] | None:
        """What passes the filters, or None if it is much."""

    def by_tags(
        self,
        tags: Collection[str],
        *,
        types: Collection[str] | None = None,
        namespace: str = "",
        limit: int = 10,
        offset: int = 0,
    ) -> list[Hit]:
        """Nodes with any of the tags: most matches first, then the newest, then by URI."""

    def by_source(self, type: str, id: str | None = None) -> list[Uri]: ...

    def newest(self, type: str, limit: int) -> list[Uri]: ...

    def types(self) -> list[str]:
        """What nodes are of, by name; `file` and `dir` where the code tree has any."""

    def has_type(self, type: str) -> bool:
        """Whether anything at all passes the filter of this type."""
