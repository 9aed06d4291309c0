"""The `search` and `recall` tools: hits by words, meaning and edges, each with the reason for the match.

Filters that the index cannot answer (the last author, the area, staleness) are tested for each hit of a bounded list,
so that a search never reads all nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Final, Literal, NotRequired, Self, cast

from pydantic import Field
from typing_extensions import TypedDict

from kgd.areas.atlas import ATOM, STEPS, Atlas
from kgd.code_history.history import CodeHistory
from kgd.errors import Advice, Do, Invalid, KgdError, Limit, NotFound
from kgd.freshness import citations
from kgd.freshness.freshness import Freshness
from kgd.graph.edges import EdgeSource, card_of
from kgd.graph.succession import Chains
from kgd.model.access import Verb
from kgd.model.escaping import printable
from kgd.model.fields import plain_weight
from kgd.model.uri import CODE_TREE, KNOWLEDGE, LANES, OWNED, Lane, Uri, name_of, path_of, scheme_of, uri_at
from kgd.retrieval.candidates import file_of, symbol_of
from kgd.retrieval.query import Answered, Question, Retrieved
from kgd.retrieval.relevance import anybody
from kgd.retrieval.retrieve import ABOUT_PATH, QUOTES, retrieve, tagged
from kgd.retrieval.spreading import SUBJECT, SUBJECT_IN_FILE, Subject
from kgd.tools import addressing, as_markdown, code_facts, file_paths, origins, paging, visibility, worktrees
from kgd.tools.areas import ids
from kgd.tools.nodes import Brief, LastChange, Standing, updated
from kgd.tools.operation import (
    BUDGET,
    CURSOR,
    EDGE_TYPES,
    LIMIT,
    SINCE,
    TYPES,
    UNTIL,
    USUAL,
    Command,
    Hints,
    Operation,
    names,
    option,
)
from kgd.tools.origins import Origin, mark
from kgd.tools.paging import Room
from kgd.tools.parameters import EdgeTypes, Many, Paged, When, future, period
from kgd.tools.read import questions
from kgd.tools.read.traverse import EdgeAnswer
from kgd.tools.session import Session
from kgd.tools.visibility import mentioned
from kgd.workspace.workspace import Workspace

DEEPEST = 10_000
"""Largest number of hits to page through; a narrower query finds the rest."""
TYPES_SHOWN = 40
LIKELY = 30
"""Largest number of files that past commits suggest."""
PARTIAL = "Texts are still being embedded; until this is done, search finds some only by words."
UNSEARCHED = "No text has these words, and meaning is not searched yet: ask again in a moment."
INDEXING = "The text index is being built; until this is done, a search finds only some of the texts."
DEGRADED = "The text index is degraded, so a search may miss texts"
CONTINUES = "; the cursor leads to the others"
KNOWLEDGE_SHARE = 65
"""Percentage of the budget for knowledge; code gets the rest, including what knowledge does not use."""

MOST_PATHS = 5
"""Largest number of paths in a question whose notes rank higher."""
MOST_ABOUT_PATH = 20
"""Notes about one file or directory."""

KINDS: Final[tuple[Literal["atom", "molecule"], ...]] = ("atom", "molecule")
LOOKED = 200
"""Number of hits in each list of a search to test."""


class SearchParams(Paged):
    query: Annotated[str, Field(max_length=200_000, description="words; optional with tags")] = ""
    types: Annotated[Many[str], Field(description="node types; file and dir too")] = Field(default_factory=list)
    tags: Annotated[Many[str], Field(description="any of them")] = Field(default_factory=list)
    namespace: Annotated[str, Field(description="a path prefix")] = ""
    edge_types: EdgeTypes = Field(default_factory=list)
    max_depth: Annotated[int | None, Field(ge=0, le=10, description="steps along relations; also returns them")] = None
    author: Annotated[str, Field(max_length=200, description="part of the name of the last author")] = ""
    area: Annotated[str, Field(max_length=2_000, description="an area: its files and the facts about them")] = ""
    stale: Annotated[bool, Field(description="only stale facts")] = False
    include: Annotated[
        Many[Literal["edges", "updated"]], Field(description="also relations of hits; time and author")
    ] = Field(default_factory=list)
    lanes: Annotated[Literal["two", "one"], Field(description="one: a single list, code after knowledge")] = "two"
    min_score: Annotated[float, Field(ge=0, le=1)] = 0.0
    since: When = None
    until: When = None
    limit: Annotated[int, Field(ge=1, le=200, description="of each list")] = 10
    budget: Annotated[int, Field(ge=1, description="tokens")] = 4_000


class HitAnswer(Brief, Standing):
    """`path` leads here from a node that matched by words or meaning; direct matches have no path. `lex` and `vec` are
    the scores of words and meaning, relative to the best; `line` is the first line of a symbol, or the line that
    quotes the query."""

    line: NotRequired[int]
    score: float
    lex: NotRequired[float]
    vec: NotRequired[float]
    why: list[str]
    path: NotRequired[list[str]]
    snippet: NotRequired[str]
    updated: NotRequired[LastChange]


class SearchResult(TypedDict):
    """`hits` is knowledge that people and agents wrote; `code` is from the code tree. `nearest` lists the closest nodes
    if nothing in `hits` answers the query. `absent` reports a path in the query that the code tree lacks, and `note`
    that the code is not in the caller's worktree."""

    workspace: str
    hits: list[HitAnswer]
    code: NotRequired[list[HitAnswer]]
    edges: NotRequired[list[EdgeAnswer]]
    nearest: NotRequired[list[str]]
    absent: NotRequired[str]
    note: NotRequired[str]
    cursor: NotRequired[str]
    hint: NotRequired[str]
    origin: NotRequired[Origin]


def search(session: Session, params: SearchParams) -> SearchResult:
    """Find nodes, best first, in two lists: knowledge and code."""
    return _searched(session, params, "search", LANES)


def recall(session: Session, params: SearchParams) -> SearchResult:
    """Return only the first list of `search`."""
    return _searched(session, params, "recall", KNOWLEDGE)


def _searched(session: Session, params: SearchParams, tool: str, lanes: tuple[Lane, ...]) -> SearchResult:
    if not params.query.strip() and not params.tags:
        of_type = " `types` alone lists nothing; traverse with `types` lists nodes near a path." if params.types else ""
        raise Invalid("there is nothing to look for", at="query", next=f"Give words, or tags.{of_type}")
    workspace = addressing.choose(session, params.workspace)
    question = [workspace.id, params.model_dump(exclude={"include", "limit", "budget", "cursor", "workspace"})]
    known = paging.read(tool, question, params.cursor) if params.cursor else None
    offset = (paging.index(known, 0), paging.index(known, 1)) if known else (0, 0)
    if max(offset) > DEEPEST:
        raise Invalid(f"paging ends after {DEEPEST} hits", at="cursor", next="Narrow the query.")
    since, until = period(params.since, params.until)
    passes = Filter.of(session, workspace, author=params.author, area=params.area, stale=params.stale)
    wanted = Question(
        params.query,
        params.namespace.strip("/"),
        tuple(params.types),
        tuple(params.tags),
        tuple(params.edge_types),
        1 if params.max_depth is None else params.max_depth,
        params.limit if passes is None else max(params.limit, LOOKED),
        params.min_score,
        lanes=lanes,
        since=since,
        until=until,
        edges=bool(params.max_depth) or "edges" in params.include,
    )
    found = answered(session, workspace, wanted, offset)
    page = _Page(session, workspace, params.limit, passes, with_stamps="updated" in params.include)
    budget = params.budget if not found.code else max(1, params.budget * KNOWLEDGE_SHARE // 100)
    hits, left = page.take(found.hits, budget)
    code, code_left = page.take(found.code, max(1, params.budget - page.used))
    shown = {hit["uri"] for hit in (*hits, *code)}
    result: SearchResult = {"workspace": workspace.id, "hits": hits}
    if params.lanes == "one":
        result["hits"] = [*hits, *code]
    elif code or Lane.CODE in lanes:
        result["code"] = code
    if wanted.edges:
        result["edges"] = _edges(found, shown, Room(max(1, params.budget - page.used)))
    if page.is_far:
        result["origin"] = origins.of_remote(workspace.id)
    is_cut = found.more or left < len(found.hits) or found.more_code or code_left < len(found.code)
    is_empty = not hits and not code and not unindexed(session, workspace)
    if is_empty and (advice := future(params.since)):
        result["hint"] = advice
    elif is_empty and passes is not None:
        result["hint"] = f"None of the best {left + code_left} hits pass the filters{CONTINUES if is_cut else ''}."
    else:
        result |= _hints(session, workspace, params, wanted, found, is_known=bool(hits), is_filtered=passes is not None)
    if params.query.strip() and result.get("hint") != UNSEARCHED and (partial := unembedded(session, workspace)):
        result["hint"] = " ".join(filter(None, (result.get("hint"), partial)))
    if not params.cursor and (absent := _absent(session, workspace, params.query, shown, page.sees)):
        result["absent"] = absent
    if Lane.CODE in lanes and (code or file_paths.is_name(params.query.strip())):
        result |= paging.present(note=worktrees.note(workspace, session.own_cwd, "code hits come from"))
    if is_cut:
        result["cursor"] = paging.write(tool, question, [offset[0] + left, offset[1] + code_left])
    return result


def _edges(found: Retrieved, shown: Container[str], room: Room) -> list[EdgeAnswer]:
    """The relations of shown hits, as many as fit."""
    edges: list[EdgeAnswer] = [
        {"source": link.source, "target": link.target, "type": link.type, "weight": plain_weight(link.weight)}
        for link in found.edges
        if link.source in shown or link.target in shown
    ]
    return [edge for edge in edges if room.take(edge)]


def _hints(
    session: Session,
    workspace: Workspace,
    params: SearchParams,
    wanted: Question,
    found: Retrieved,
    *,
    is_known: bool,
    is_filtered: bool,
) -> Any:
    """The fields that explain a search without knowledge. Notes whether the question has an answer."""
    if hint := unindexed(session, workspace):
        return {"hint": hint}
    if is_known:
        questions.note(session, workspace, wanted, found=True)
    elif not params.cursor and not is_filtered:
        sees = session.sight(workspace.id)
        if hint := _unknown_types(workspace, params.types, sees):
            return {"hint": hint}
        if params.query.strip():
            if not workspace.meaning.is_partial:
                questions.note(session, workspace, wanted, found=False, named=params.workspace is not None)
            is_unsearched = sees is None and workspace.meaning.is_behind
            hint = UNSEARCHED if is_unsearched else "Nothing is known about this."
            return {"hint": hint, **paging.present(nearest=list(found.nearest))}
    return {}


def unindexed(session: Session, workspace: Workspace) -> str:
    """Why a search may miss texts that the workspace has; empty if the text index has all. An error, which may name
    paths and hidden nodes, is not for the holder of a token."""
    if workspace.is_text_partial:
        return INDEXING
    if not (problem := workspace.text_problem.rstrip(".")):
        return ""
    return f"{DEGRADED}: {problem}." if session.principal is None else f"{DEGRADED}."


def unembedded(session: Session, workspace: Workspace) -> str:
    """Why a search by meaning may miss texts; empty if it misses few, and for a caller who may not read every node."""
    is_partial = workspace.meaning.is_partial and session.sight(workspace.id) is None
    return PARTIAL if is_partial else ""


class _Page:
    """The lists of one answer, cut to a budget and to `limit` hits each that pass the filters."""

    def __init__(
        self, session: Session, workspace: Workspace, limit: int, passes: Filter | None, *, with_stamps: bool
    ) -> None:
        self.sees = session.sight(workspace.id)
        self.is_far = origins.trust_in(session, workspace) == "remote"
        self.used = 0
        """Size of the lists so far, in tokens."""
        self._workspace, self._limit, self._passes, self._with_stamps = workspace, limit, passes, with_stamps
        self._sources = visibility.sources(session, workspace.id, workspace.sources())

    def take(self, found: Sequence[Answered], budget: int) -> tuple[list[HitAnswer], int]:
        """The hits that pass and fit, at least one, and the number of examined hits; deleted nodes are skipped."""
        hits: list[HitAnswer] = []
        room, looked_at = Room(budget), 0
        for hit in found:
            answer = self._answer(hit) if len(hits) < self._limit else None
            if len(hits) == self._limit or (answer is not None and not room.take(answer, first=True)):
                break
            looked_at += 1
            if answer is not None:
                hits.append(answer)
        mark(self._workspace, hits, self.sees)
        self.used += room.used // 4
        return hits, looked_at

    def _answer(self, hit: Answered) -> HitAnswer | None:
        if self._passes is not None and not self._passes(hit.uri):
            return None
        answer = _answer(self._sources, hit)
        if answer is None:
            return None
        version = self._workspace.node_version(hit.uri) if self._with_stamps else None
        if version is not None:
            answer["updated"] = updated(version)
        return cast("HitAnswer", origins.fence(answer)) if self.is_far else answer


def _absent(
    session: Session, workspace: Workspace, query: str, shown: Collection[str], sees: visibility.Sees | None
) -> str:
    """A sentence about a queried path that does not exist, with similar paths; empty if a hit has this path."""
    path = file_paths.absent(session, workspace, query).rstrip("/")
    uri = uri_at("file", workspace.id, path) if path else None
    if uri is None or any(f"{one}/".endswith(f"/{uri.split('/', 3)[3]}/") for one in shown):
        return ""
    return printable(f"The code tree has no {path}{file_paths.similar(workspace, path, sees)}.")


def _unknown_types(workspace: Workspace, types: Sequence[str], sees: visibility.Sees | None) -> str:
    """A hint, with the types in use, if one of the given types is not in use; otherwise empty.

    Node types are free text. Restricted callers see only built-in types, whether such nodes exist or not.
    """
    index = workspace.text_so_far()
    known = index.types() if sees is None else sorted(OWNED)
    missing = [one for one in types if one not in known and (sees is not None or not index.has_type(one))]
    if not missing:
        return ""
    named, listed = " or ".join(repr(one[:60]) for one in missing[:5]), ", ".join(known[:TYPES_SHOWN])
    if sees is not None:
        return f"{named} is not one of the built-in types: {listed}."
    return f"No node has the type {named}; the types in use are: {listed or 'none yet'}."


def answered(session: Session, workspace: Workspace, question: Question, offset: tuple[int, int] = (0, 0)) -> Retrieved:
    """The hits from `offset` on that the caller may see: by words, meaning and relations, or by tags alone."""
    sees = session.sight(workspace.id)
    sources = visibility.sources(session, workspace.id, workspace.sources())
    if question.query.strip():
        stale = Freshness.of(workspace).doubted if sees is None else ()
        subjects = _subjects(session, workspace, question.query) if question.max_depth else {}
        return retrieve(
            workspace,
            question,
            mentioned(session, workspace),
            sees=sees,
            stale=stale,
            sources=sources,
            about=partial(about_paths, workspace),
            likely=partial(_likely, workspace) if session.sees_code_history(workspace) else None,
            first=_about_named(session, workspace, question.query) if question.max_depth else {},
            subjects=subjects,
            offset=offset,
        )
    return tagged(workspace, question, sees=sees, sources=sources, offset=offset[0])


def _likely(workspace: Workspace, query: str) -> dict[Uri, float]:
    """The files that past commits suggest."""
    found = CodeHistory.of(workspace).files_for(query, LIKELY)
    return {uri: one.score for one in found if (uri := uri_at("file", workspace.id, one.path)) is not None}


def _answer(sources: Sequence[EdgeSource], hit: Answered) -> HitAnswer | None:
    card = card_of(sources, hit.uri)
    if card is None:
        return None
    answer: HitAnswer = {
        "uri": hit.uri,
        "type": card.type,
        "name": card.name or name_of(hit.uri),
        "score": hit.score,
        "why": list(hit.why),
    }
    answer |= paging.present(
        line=hit.line or card.line,
        lex=hit.lex,
        vec=hit.vec,
        path=list(hit.path) if len(hit.path) > 1 else (),
        summary=card.summary,
        snippet=hit.snippet if hit.snippet != card.summary else "",
    )
    return answer


def about_paths(workspace: Workspace, uris: Sequence[Uri]) -> dict[Uri, list[Uri]]:
    """For each file or directory of the code tree, the notes about it: citing nodes, related nodes, then areas, the
    narrowest first."""
    atlas = Atlas.of(workspace)
    paths = {uri: path_of(uri) for uri in uris if scheme_of(uri) == "file"}
    paths |= {uri: f"{path_of(uri)}/" for uri in uris if scheme_of(uri) == "dir"}
    areas: dict[str, list[Uri]] = {}
    with suppress(Limit):
        owners = atlas.matching(list(paths.values()), most=STEPS).by_atom
        for atom in sorted(filter(None, map(atlas.atom, owners)), key=lambda one: -one.depth):
            for path in owners[atom.uri]:
                areas.setdefault(path, []).append(atom.uri)
    found, chains = {}, Chains(workspace.graph)
    for uri, path in paths.items():
        notes = code_facts.about_code(workspace, uri, LOOKED)
        if len(notes) > MOST_ABOUT_PATH:
            notes = chains.current_first(notes)
        found[uri] = list(dict.fromkeys([*notes, *areas.get(path, ())]))[:MOST_ABOUT_PATH]
    return found


def _subjects(session: Session, workspace: Workspace, query: str) -> dict[Uri, Subject]:
    """The notes about the files and symbols that a question names among other words. If it names a file, each word may
    be one of the file's symbols."""
    words = query.split()
    paths = [word for word in words if "/" in word or "." in word][:MOST_PATHS] if len(words) > 1 else []
    files, symbols = list[Uri](), list[Uri]()
    for path in (word.rstrip(".,;:!?").strip(QUOTES) for word in paths):
        file, _, name = path.partition("#")
        named = file_paths.named(session, workspace, path)
        if name and not named:  # a `#` may also be part of a file's name
            named = file_paths.named(session, workspace, file)
            symbols += [symbol for one in named if scheme_of(symbol := symbol_of(one, name)) == "symbol"]
        files += named
    about = about_paths(workspace, files) if files else {}
    symbols += code_facts.named_of(session, workspace, files, query)
    found = {note: Subject(ABOUT_PATH) for notes in about.values() for note in notes}
    for named, bonus in ((code_facts.named_inside(session, workspace, query), SUBJECT), (symbols, SUBJECT_IN_FILE)):
        facts = code_facts.facts_about(session, workspace, dict.fromkeys(named))
        found |= {note: Subject(why, bonus) for note, why in code_facts.reasons(facts).items()}
    return found


def _about_named(session: Session, workspace: Workspace, query: str) -> dict[Uri, str]:
    """The nodes of files and directories that are the query, and the notes about them; or the notes about its symbol.
    Each has the reason."""
    if named := file_paths.named(session, workspace, query):
        about = about_paths(workspace, named)
        return {one: ABOUT_PATH for uri in named for one in (uri, *about[uri])}
    symbol = code_facts.at_address(session, workspace, query)
    symbols = [symbol] if symbol is not None else code_facts.called(session, workspace, query)
    return code_facts.reasons(code_facts.facts_about(session, workspace, symbols))


SEARCH = Operation(
    name="search",
    title="Find knowledge",
    description=(
        "Start here. Find team knowledge (`hits`) and code (`code`) by words, meaning, names, "
        "tags, type or namespace. Exact names come first; `why` gives the reason for a hit. A document is one hit; "
        "types=chunk lists its chunks."
    ),
    hints=Hints(read_only=True, idempotent=True),
    run=search,
    text=as_markdown.hits,
    computes=True,
    forwards=True,
    page="the search",
    offered=USUAL,
    place=10,
    scope=Verb.READ,
    commands=(
        Command(
            "Reading",
            "find nodes by words, meaning and relations",
            (
                option("query", "words", "WORD", nargs="*"),
                TYPES,
                names("--tags", "with this tag; repeated: with any of them", "TAG"),
                option("--namespace", "below this path", "PATH"),
                EDGE_TYPES,
                option("--max-depth", "steps to expand from each hit (default: 1)"),
                option("--min-score", "leave out lower scores", "X"),
                SINCE,
                UNTIL,
                option("--author", "last changed by an author with this in the name", "NAME"),
                option("--area", "only an area: its files and the facts about them", "AREA"),
                option("--stale", "only stale facts"),
                LIMIT,
                BUDGET,
                CURSOR,
            ),
            place=30,
            print="printing.search",
            examples=(
                ("kgd search sessions renew", "by words and meaning"),
                ("kgd search sessions --types insight --since 'last week'", "recent facts only"),
            ),
        ),
    ),
)
RECALL = replace(
    SEARCH,
    name="recall",
    title="Recall knowledge",
    description="Only the first list of search: knowledge that people and agents wrote.",
    run=recall,
    offered="",
    place=0,
    page="",
    commands=(
        Command(
            "Reading",
            "find remembered facts by words or tags; most matching tags first",
            (
                option("query", "words", "WORD", nargs="*"),
                names("--tags", "with this tag; repeated: with any of them", "TAG"),
                TYPES,
                SINCE,
                UNTIL,
                LIMIT,
                CURSOR,
            ),
            place=20,
            ask="search",
            print="printing.search",
            examples=(("kgd recall sessions --since monday", "facts remembered this week"),),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Filter:
    """Whether a hit passes. Takes up to one read of a node per hit.

    Args:
        author: A folded part of the name of the last author; empty for any.
        areas: The areas to be in; None for no restriction.
        stale: The nodes to choose from; None for any.
    """

    workspace: Workspace
    author: str
    areas: frozenset[Uri] | None
    stale: Collection[Uri] | None

    @classmethod
    def of(cls, session: Session, workspace: Workspace, *, author: str, area: str, stale: bool) -> Self | None:
        """The filter of a call; None if it has none.

        Raises:
            NotFound: There is no such area.
            Forbidden: The caller may not read the area.
        """
        if not (author.strip() or area.strip() or stale):
            return None
        sees = session.sight(workspace.id)
        doubted = Freshness.of(workspace).doubted if sees is None else frozenset[Uri]()
        areas = _areas(session, workspace, area.strip()) if area.strip() else None
        return cls(workspace, author.strip().casefold(), areas, doubted if stale else None)

    def __call__(self, uri: Uri) -> bool:
        return (
            (self.stale is None or uri in self.stale)
            and (not self.author or self.author in self._last_author(uri))
            and (self.areas is None or uri in self.areas or not self.areas.isdisjoint(areas_of(self.workspace, uri)))
        )

    def _last_author(self, uri: Uri) -> str:
        version = self.workspace.node_version(uri)
        return version.author.casefold() if version else ""


def areas_of(workspace: Workspace, uri: Uri, sees: visibility.Sees | None = None) -> set[Uri]:
    """The areas that a hit is about: of its file, or those that it cites or has relations with.

    Args:
        sees: Predicate for readable nodes, or None if unrestricted. Other areas are left out.
    """
    places, related = set[str](), set[Uri]()
    for one in _about(workspace, uri):
        if scheme_of(one) in KINDS:
            related.add(one)
        elif scheme_of(one) in CODE_TREE:
            places.add(one)
    with suppress(Limit):
        related |= Atlas.of(workspace).matching(sorted(places), most=STEPS).by_atom.keys() if places else set()
    return related if sees is None else set(filter(sees, related))


def _about(workspace: Workspace, uri: Uri) -> Iterator[Uri]:
    """The file of a hit in the code; the targets of relations, by their present URIs and with the file of a symbol, and
    the cited files of any other node."""
    own = file_of(uri)
    if scheme_of(own) in CODE_TREE:
        yield own
        return
    for edge in workspace.graph.out(uri):
        yield file_of(edge.target) if scheme_of(edge.target) == "symbol" else edge.target
    cited: list[citations.Citation] = []
    with suppress(KgdError):  # a damaged file, which `kgd fsck` reports
        node = workspace.node(uri) if citations.may_cite(workspace.stored(uri) or b"") else None
        cited = citations.of(node, workspace.id) if node is not None else []
    for one in cited:
        if file := uri_at("file", workspace.id, one.path):
            yield file


def _areas(session: Session, workspace: Workspace, text: str) -> frozenset[Uri]:
    """The area with this URI, id or name, in any case; of a molecule, with its atoms."""
    found, sees = set[Uri](), session.sight(workspace.id) or anybody
    for kind in KINDS:
        with suppress(Invalid, NotFound):
            found.add(ids.area(session, workspace, kind, text, at="area"))
    if not found:
        found = {one.uri for one, _ in workspace.text_so_far().called(text, sees, types=KINDS)}
    if not found:
        uri = uri_at(ATOM, workspace.id, text)
        like = ids.similar(session, workspace, uri) if uri is not None else []
        looks = Advice("Find it with ", Do("search", types=ATOM), ".")
        raise NotFound("there is no such area", at="area", next=f"Did you mean {', '.join(like)}?" if like else looks)
    atoms = (atom.uri for uri in tuple(found) for atom in Atlas.of(workspace).atoms_of(uri))
    return frozenset(found.union(filter(sees, atoms)))
