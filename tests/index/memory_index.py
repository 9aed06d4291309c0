"""A reference index in plain dictionaries: the meaning of the contract without any speed."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from kgd.index import words
from kgd.index.doc_texts import speakers, whole_of
from kgd.index.ranking import ALL, BEGUN, FILE, FILE_SOME, SOME, Found, Hit
from kgd.index.text import Doc, FileDoc, Gathered
from kgd.model.node import default_type
from kgd.model.uri import LANES, Lane, Uri, is_owned, scheme_of

Passes = Callable[[Doc], bool]
Sees = Callable[[Uri], bool]


class MemoryIndex:
    """Matches a word if a text has a word with the same letters, up to an ending of three."""

    def __init__(self) -> None:
        self._docs: dict[tuple[Uri, Uri | None], Doc] = {}
        self._files: dict[Uri, FileDoc] = {}
        self._ids: dict[tuple[Uri, Uri | None], int] = {}
        self._tree: str | None = None

    def apply(self, upserts: Iterable[Doc], removals: Iterable[Uri] = (), *, tree: str | None = None) -> None:
        docs = list(upserts)
        for uri in removals:
            self._docs.pop((uri, None), None)
        self._docs.update(((doc.uri, None), doc) for doc in docs)
        self._tree = tree or self._tree

    def apply_trees(self, trees: Mapping[Uri, Sequence[Doc]]) -> None:
        self._docs = {key: doc for key, doc in self._docs.items() if key[1] not in trees}
        self._docs.update(((doc.uri, file), doc._replace(origin=file)) for file, docs in trees.items() for doc in docs)

    def apply_files(self, upserts: Iterable[FileDoc], removals: Iterable[Uri] = ()) -> None:
        for uri in removals:
            self._files.pop(uri, None)
        self._files.update((file.uri, file) for file in upserts)

    def tree(self) -> str | None:
        return self._tree

    def count(self) -> int:
        return len(self._docs)

    def search(
        self,
        query: str,
        *,
        types: Collection[str] | None = None,
        tags: Collection[str] | None = None,
        namespace: str = "",
        lanes: Collection[Lane] | None = None,
        limit: int = 10,
        sees: Sees | None = None,
    ) -> list[Hit]:
        passes = _passing(types, tags, namespace, lanes)
        found = [one for one in self._found(query, passes) if sees is None or sees(one.uri)]
        if not tags and Lane.CODE in (lanes or LANES):
            found += self.bare_files(query, types=types, namespace=namespace, limit=10_000, sees=sees)
        scored = [(-(one.tier + 2) / 6, one) for one in found]
        ordered = sorted(scored, key=lambda one: (one[0], one[1].lane, one[1].rank, one[1].uri))
        ordered = ordered[:limit]
        return [hit._replace(score=-score) for score, one in ordered for hit in self.explain(query, [one])]

    def gather(
        self,
        query: str,
        lane: Lane,
        *,
        types: Collection[str] | None = None,
        tags: Collection[str] | None = None,
        namespace: str = "",
        limit: int = 1_000,
        surrounded: bool = True,
        sees: Sees | None = None,
    ) -> Gathered:
        passes = _passing(types, tags, namespace, [lane])
        every = (one for one in self._found(query, passes) if sees is None or sees(one.uri))
        found = sorted(every, key=lambda one: (-one.tier, one.rank, one.uri))[:limit]
        asked = [term.word.casefold() for term in words.terms(query)]
        if sees is not None:
            return Gathered(found, {}, [], {one.id: 1.0 for one in found}, frozenset(asked))
        covered = {one.id: min(1.0, -one.rank / len(asked)) for one in found}
        known = frozenset(word for word in asked if any(_has(_text(doc), word) for doc in self._docs.values()))
        wholes: dict[str, float] = {}
        for doc in sorted(self._docs.values(), key=lambda one: one.uri):
            if (path := whole_of(doc.uri)) and doc.lane is lane:
                wholes[path] = wholes.get(path, 0.0) + sum(_has(f"{doc.name} {doc.content}", word) for word in asked)
        beside = list(self._beside(asked, passes)) if surrounded and lane is Lane.SOURCES else []
        return Gathered(found, {path: score for path, score in wholes.items() if score}, beside, covered, known)

    def _beside(self, asked: Sequence[str], passes: Passes) -> Iterator[Found]:
        messages = sorted(doc.uri for doc in self._docs.values() if scheme_of(doc.uri) == "message")
        for at, uri in enumerate(messages):
            near = [
                one for one in messages[max(0, at - 1) : at + 2] if one.rpartition("/")[0] == uri.rpartition("/")[0]
            ]
            said = " ".join(self._docs[one, None].content for one in near)
            if (count := sum(_has(said, word) for word in asked)) and passes(self._docs[uri, None]):
                yield Found(-float(count), uri, self._id((uri, None)), SOME, lane=Lane.SOURCES)

    def bare_files(
        self,
        query: str,
        *,
        types: Collection[str] | None = None,
        namespace: str = "",
        limit: int = 10,
        sees: Sees | None = None,
    ) -> list[Found]:
        found = []
        asked = [term.word.casefold() for term in words.terms(query)]
        stored = {uri for uri, _ in self._docs}
        for file in self._files.values():
            doc = Doc(file.uri, default_type(file.uri), "", content=file.path)
            passes = _passing(types, None, namespace)(doc) or (file.kind in (types or ()))
            count = sum(_has(file.path, word) for word in asked)
            if count and passes and file.uri not in stored and (sees is None or sees(file.uri)):
                found.append(Found(-float(count), file.uri, 0, FILE if count == len(asked) else FILE_SOME))
        return sorted(found, key=lambda one: (-one.tier, one.rank, one.uri))[:limit]

    def explain(self, query: str, page: Sequence[Found]) -> list[Hit]:
        hits = []
        for one in page:
            doc = next((doc for key, doc in self._docs.items() if key[0] == one.uri), None)
            text = _text(doc) if doc else one.uri
            named = [t.word.casefold() for t in words.terms(query) if _has(text, t.word.casefold())]
            hits.append(
                Hit(one.uri, 0.0, " ".join(text.split())[:160], (f"text: {', '.join(named)}",) if named else ())
            )
        return hits

    def by_people(self, names: Sequence[str], ids: Collection[int]) -> set[int]:
        return {
            id
            for key, doc in self._docs.items()
            if (id := self._id(key)) in ids
            and {w.casefold() for who in doc.people or speakers(doc.content) for w in words.words_of(who)} & set(names)
        }

    def passing(
        self,
        uris: Collection[Uri],
        *,
        types: Collection[str] | None = None,
        tags: Collection[str] | None = None,
        namespace: str = "",
        lanes: Collection[Lane] | None = None,
    ) -> list[Found]:
        passes = _passing(types, tags, namespace, lanes)
        keys = {uri: (uri, origin) for (uri, origin), doc in self._docs.items() if uri in uris and passes(doc)}
        return [Found(0.0, uri, self._id(keys[uri]), SOME, lane=self._docs[keys[uri]].lane) for uri in sorted(keys)]

    def few_in(
        self,
        *,
        types: Collection[str] | None = None,
        tags: Collection[str] | None = None,
        namespace: str = "",
        lanes: Collection[Lane] | None = None,
    ) -> list[Uri] | None:
        passes = _passing(types, tags, namespace, lanes)
        return sorted({doc.uri for doc in self._docs.values() if passes(doc)})

    def by_tags(
        self,
        tags: Collection[str],
        *,
        types: Collection[str] | None = None,
        namespace: str = "",
        limit: int = 10,
    ) -> list[Hit]:
        asked = {tag.casefold() for tag in tags}
        passes = _passing(types, None, namespace)
        counted = [(len(asked & {t.casefold() for t in doc.tags}), doc) for doc in self._docs.values() if passes(doc)]
        ordered = sorted((one for one in counted if one[0]), key=lambda one: (-one[0], -one[1].updated, one[1].uri))
        return [Hit(doc.uri, count / len(asked), doc.summary, ()) for count, doc in ordered[:limit]]

    def by_source(self, type: str, id: str | None = None) -> list[Uri]:
        return sorted(
            doc.uri
            for doc in self._docs.values()
            if doc.source and doc.source.type == type and id in (None, doc.source.id)
        )

    def types(self) -> list[str]:
        return sorted({doc.type for doc in self._docs.values()} | ({"file", "dir"} if self._files else set()))

    def has_type(self, type: str) -> bool:
        files = (Doc(file.uri, default_type(file.uri), "") for file in self._files.values())
        passes = _passing([type], None, "")
        kinds = {file.kind for file in self._files.values()}
        return type in kinds or any(passes(doc) for doc in (*self._docs.values(), *files))

    def newest(self, type: str, limit: int) -> list[Uri]:
        found = sorted((doc for doc in self._docs.values() if doc.type == type), key=lambda d: (-d.updated, d.uri))
        return [doc.uri for doc in found[:limit]]

    def _found(self, query: str, passes: Passes) -> Iterator[Found]:
        asked = [term.word.casefold() for term in words.terms(query)]
        best: dict[Uri, Found] = {}
        for key, doc in self._docs.items():
            count = sum(_has(_text(doc), word) for word in asked)
            begun = count < len(asked) and _begins(_text(doc), asked[-1]) and not _has(_text(doc), asked[-1])
            if (count or begun) and passes(doc) and not doc.bare:
                tier = ALL if count == len(asked) else BEGUN if count + begun == len(asked) else SOME
                found = Found(-float(count + begun), doc.uri, self._id(key), tier, lane=doc.lane)
                best[doc.uri] = max(found, best.get(doc.uri, found), key=lambda one: one.tier)
        yield from best.values()

    def _id(self, key: tuple[Uri, Uri | None]) -> int:
        return self._ids.setdefault(key, len(self._ids) + 1)


def _passing(
    types: Collection[str] | None,
    tags: Collection[str] | None,
    namespace: str,
    lanes: Collection[Lane] | None = None,
) -> Passes:
    asked = {tag.casefold() for tag in tags or ()}

    def passes(doc: Doc) -> bool:
        path = doc.uri.split("/", 3)[3] if is_owned(doc.uri) else ""
        return (
            (not types or doc.type in types or (scheme_of(doc.uri) in types and scheme_of(doc.uri) in ("file", "dir")))
            and (not asked or bool(asked & {tag.casefold() for tag in doc.tags}))
            and (not namespace.strip("/") or path.startswith(f"{namespace.strip('/')}/"))
            and (not lanes or doc.lane in lanes)
        )

    return passes


def _text(doc: Doc) -> str:
    path = doc.uri.split("/", 3)[3] if is_owned(doc.uri) else ""
    return " ".join((doc.name, *doc.tags, doc.summary, doc.content, doc.data_text, path))


def _words(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKD", text)
    spelt = "".join(c for c in plain if not unicodedata.combining(c))
    return [part.casefold() for word in re.findall(r"[^\W_]+", spelt) for part in (word, *words.parts_of(word))]


def _has(text: str, word: str) -> bool:
    return any(
        one == word or (min(len(one), len(word)) > 3 and one.rstrip("s") == word.rstrip("s")) for one in _words(text)
    )


def _begins(text: str, word: str) -> bool:
    return len(word) >= 3 and any(one.startswith(word) for one in _words(text))
