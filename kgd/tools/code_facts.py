"""The symbols of the code tree that a text names; facts about symbols, files and folders; tasks that list a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from kgd.areas.patterns import normalise
from kgd.errors import Invalid, NotFound
from kgd.freshness.freshness import Freshness
from kgd.index.exact_names import asked_in
from kgd.index.words import STOPWORDS
from kgd.memories.tasks import parsed
from kgd.model.escaping import one_line
from kgd.model.uri import CODE_TREE, Uri, name_of, path_of, scheme_of, uri_at
from kgd.retrieval.relevance import anybody
from kgd.retrieval.retrieve import ABOUT_SYMBOL, QUOTES
from kgd.tools import addressing, file_paths
from kgd.tools.session import Session
from kgd.workspace.served import Beside, Changed
from kgd.workspace.workspace import Workspace

MOST_CALLED = 60
"""Largest number of symbols of one name whose facts are looked up."""
FEW_CALLED = 3
"""Largest number of symbols that a name inside a sentence stands for."""
MOST_FACTS = 200
"""Largest number of facts about one symbol, and of facts that cite its file."""
_WORD = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"~\d+\Z")
"""The end of the name of a symbol's further definitions."""


class Fact(NamedTuple):
    """A node about a symbol: the symbol, and the type of the relation, or ``cites``."""

    uri: Uri
    type: str
    symbol: Uri

    @property
    def why(self) -> str:
        """The fact's relation in words, such as ``about sign in src/keys.py``."""
        path, _, name = path_of(self.symbol).rpartition("/")
        return one_line(f"{self.type.replace('_', ' ')} {name} in {path}")


def at_address(session: Session, workspace: Workspace, text: str) -> Uri | None:
    """The symbol of ``src/keys.py#sign`` or ``symbol://shop/src/keys.py/sign``; None if the text is no such address.

    The code need not have the symbol, since facts may still name it; but it must have the file of ``PATH#NAME``.

    Raises:
        Unavailable: The file was just written, and could not be read in time.
    """
    text = text.strip()
    path, sign, name = text.partition("#")
    uri: Uri | None = None
    if text.startswith("symbol:"):
        with suppress(Invalid, NotFound):
            uri = addressing.resolve(session, workspace, text)
            uri = uri if addressing.owner_of(session, workspace, uri) is workspace else None
    elif sign and name and "://" not in text and not any(map(str.isspace, name)):
        place = None if file_paths.is_known(session, workspace, text) else _file(session, workspace, path)
        if place:
            addressing.await_symbols(session, workspace, place)
            uri = uri_at("symbol", workspace.id, f"{place}/{name}")
    sees = session.sight(workspace.id) or anybody
    return uri if uri is not None and sees(uri) else None


def _file(session: Session, workspace: Workspace, text: str) -> str | None:
    place = file_paths.locate_existing(session, workspace, text)
    return None if place is None or file_paths.is_directory(workspace, place) else place


def called(session: Session, workspace: Workspace, name: str, most: int = MOST_CALLED) -> list[Uri]:
    """The readable symbols with exactly this name, which may be qualified.

    Empty if there are more than `most`.
    """
    name = name.strip().strip(QUOTES).removesuffix("()")
    if not file_paths.is_name(name):
        return []
    sees = session.sight(workspace.id) or anybody
    found = workspace.text_so_far().called(name, sees, types=["symbol"])
    exact = list(islice((one.uri for one, is_exact in found if is_exact), most + 1))
    return exact if len(exact) <= most else []


def named_inside(session: Session, workspace: Workspace, question: str) -> list[Uri]:
    """The symbols that a question names by words written like identifiers. A name that many symbols have is ignored."""
    whole = question.strip().strip(QUOTES).removesuffix("()")
    inside = (name for name in asked_in(question) if name != whole and not any(map(str.isspace, name)))
    return [uri for name in inside for uri in called(session, workspace, name, FEW_CALLED)]


def named_of(session: Session, workspace: Workspace, files: Iterable[Uri], question: str) -> list[Uri]:
    """The readable symbols of these files whose last name is a word of a question."""
    sees, asked = session.sight(workspace.id) or anybody, set(_WORD.findall(question)) - STOPWORDS
    inside = (
        edge.target
        for uri in files
        if scheme_of(uri) == "file"
        for source in workspace.sources()
        for edge in source.out(uri)
        if scheme_of(edge.target) == "symbol"
    )
    return [uri for uri in inside if _NUMBER.sub("", name_of(uri)).rpartition(".")[2] in asked and sees(uri)]


def facts_about(session: Session, workspace: Workspace, symbols: Iterable[Uri]) -> Iterator[Fact]:
    """The nodes with a relation to a symbol, then nodes that cite it, for each symbol; also under other paths of its
    file. A node comes once for each symbol."""
    freshness = Freshness.of(workspace)
    placed = [(symbol, *path_of(symbol).rpartition("/")) for symbol in symbols]
    others = file_paths.other_paths(session, workspace, list({path for _, path, _, _ in placed}))
    for symbol, path, _, name in placed:
        paths = (path, *(one.path for one in others.get(path, ())))
        found = dict[Uri, str]()
        for one in paths:
            if (uri := uri_at("symbol", workspace.id, f"{one}/{name}")) is not None:
                for edge in workspace.graph.into(uri)[:MOST_FACTS]:
                    found.setdefault(edge.target, edge.type)
            for citing in freshness.citing(one)[:MOST_FACTS]:
                if any(cited.path in paths and cited.symbol == name for cited in freshness.citations(citing)):
                    found.setdefault(citing, "cites")
        yield from (Fact(uri, type, symbol) for uri, type in found.items() if scheme_of(uri) not in CODE_TREE)


def reasons(facts: Iterable[Fact]) -> dict[Uri, str]:
    """The reason for each fact as a hit, in words, from its first symbol."""
    found = dict[Uri, str]()
    for fact in facts:
        found.setdefault(fact.uri, f"{ABOUT_SYMBOL}{one_line(name_of(fact.symbol))}")
    return found


def about_code(workspace: Workspace, uri: Uri, most: int | None = None) -> list[Uri]:
    """The nodes that cite a file or folder of the code tree, then at most `most` nodes related to it; each once."""
    related = (edge.target for edge in workspace.graph.into(uri)[:most])
    found = dict.fromkeys([*Freshness.of(workspace).citing(path_of(uri)), *related])
    return [one for one in found if scheme_of(one) not in CODE_TREE]


class TaskFiles(Beside):
    """The tasks of one workspace by listed path, including all acknowledged writes. Thread-safe.

    The first call reads each task once; later calls read only changed tasks.
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._tasks: dict[str, dict[Uri, None]] = {}
        self._paths: dict[Uri, tuple[str, ...]] = {}
        self._changed = Changed(workspace, "task")

    def listing(self, paths: Sequence[str]) -> dict[str, list[Uri]]:
        """The tasks that list a path, for each of the paths with tasks; the path of a folder ends in a slash. O(1) for
        each path."""
        with self._lock:
            self._refresh()
            return {path: sorted(found) for path in paths if (found := self._tasks.get(path))}

    def _refresh(self) -> None:
        for uri in self._changed.unread():
            for path in self._paths.pop(uri, ()):
                del self._tasks[path][uri]
                if not self._tasks[path]:
                    del self._tasks[path]
            if (node := self._workspace.readable(uri)) is None:
                continue
            listed = (normalise(one, None, workspace=self._workspace.id) for one in parsed(node).files)
            self._paths[uri] = tuple(dict.fromkeys(filter(None, listed)))
            for path in self._paths[uri]:
                self._tasks.setdefault(path, {})[uri] = None
