"""The search for nodes relevant to paths, to a task, or to a question: each once, with the reasons, in reading order.

The cost does not grow with the workspace: each step follows an index or a node's own relations, up to a limit.

A reader who stops half way should know the rules and gotchas. So areas come first, then gotchas, patterns and
decisions, then other nodes. Nodes about the subject itself come before nodes that are only near it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NotRequired

from typing_extensions import TypedDict

from kgd.areas.atlas import STEPS, Atlas, Atom
from kgd.freshness.citations import RENAMED
from kgd.freshness.freshness import Freshness
from kgd.graph.edges import Card, Edge, Visited, card_of
from kgd.graph.succession import Chains
from kgd.graph.traverse import traverse
from kgd.index.ranking import Hit
from kgd.memories.keywords import keywords
from kgd.memories.tasks import Task
from kgd.model.escaping import fenced_line, printable
from kgd.model.node import cut_at_word
from kgd.model.uri import CODE_TREE, KNOWLEDGE, Uri, name_of, path_of, scheme_of, uri_at, workspace_of
from kgd.retrieval import candidates
from kgd.retrieval.query import Answered, Question, Retrieved
from kgd.retrieval.retrieve import ABOUT_PATH, ABOUT_SYMBOL
from kgd.tools import code_facts, file_paths, visibility
from kgd.tools.file_paths import OtherPath, Places, above
from kgd.tools.nodes import SuccessorAnswer, overlay_of, title_of
from kgd.tools.origins import successor_of
from kgd.tools.read import questions
from kgd.tools.read.search import answered
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace

ANSWER, DIRECT, NEAR, FAR = range(4)
"""Distance of a node from the question: it answers the question, is about the subject, is related to the subject's
areas, or was reached from there.
"""

MEMORIES = ("gotcha", "pattern", "decision", "insight", "task")
AREAS = ("molecule", "atom")
_ORDER = {kind: number for number, kind in enumerate((*AREAS, *MEMORIES[:-1], "concept", "task", "file", "dir"))}
_ORDER["molecule"] = _ORDER["atom"]  # their ranks order atoms and molecules
_OTHERS = _ORDER["concept"]
LOOKED_THROUGH = 2_000
"""Number of hits of a tag query among which to look for readable nodes."""
REASONS = 2
"""Largest number of reasons per item."""
LONGEST_REASON = 160
CHUNK_TEXT = 400
"""Largest number of characters shown of a document's chunk in the code tree."""


class CodeAnswer(TypedDict):
    """A node of the code tree that is not stored. `line` is the first line of a symbol."""

    uri: str
    name: str
    why: str
    line: NotRequired[int]
    summary: NotRequired[str]
    text: NotRequired[str]


@dataclass(slots=True)
class Found:
    """One node. `rank` orders nodes of equal kind and closeness; lower is earlier."""

    uri: Uri
    card: Card
    kind: str
    closeness: int
    rank: tuple[float, ...]
    reasons: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    """For an area: the requested paths that it owns."""
    superseded_by: SuccessorAnswer | None = None
    on_line: bool = False
    """It cites, or has a relation to, a symbol that contains a requested line."""
    of_symbol: bool = False
    """It cites or is related to a requested symbol, or to the symbol of a requested line, and a reason names it."""

    def order(self, doubted: Collection[Uri]) -> tuple[object, ...]:
        """The sort key. Nodes in `doubted` come after the other nodes of their kind."""
        if self.closeness == ANSWER:
            return (ANSWER, 0, self.uri in doubted, 0, self.rank, self.uri)
        # Nodes related to the areas share a tier with nodes that name the files, and follow them within their kind.
        tier = FAR if self.closeness == FAR else DIRECT
        # An area that may be stale still owns its paths: it keeps its place after its molecule.
        last = self.uri in doubted and self.kind not in AREAS
        return (tier, _ORDER.get(self.kind, _OTHERS), last, self.closeness, self.rank, self.uri)

    @property
    def why(self) -> str:
        told = "; ".join(self.reasons[:REASONS])
        return told if len(told) <= LONGEST_REASON else f"{told[: LONGEST_REASON - 1]}…"


class Findings:
    """The findings of one caller in one workspace."""

    def __init__(
        self, session: Session, workspace: Workspace, since: int | None = None, until: int | None = None
    ) -> None:
        """`since` and `until` (Unix seconds, both included) restrict the nodes by date."""
        self.workspace, self.session = workspace, session
        self.since, self.until = since, until
        self.sees = session.sight(workspace.id)
        self._found: dict[Uri, Found] = {}
        self._left_out: set[Uri] = set()
        self.beyond: dict[Uri, int] = {}
        """For each node with too many relations, the number of relations that were skipped."""
        self.code: dict[Uri, CodeAnswer] = {}
        """Nodes of the code tree that are relevant, best first."""
        self.with_symbols = False
        """Whether the symbols and imports of the requested files are included."""
        self.chains = Chains(workspace.graph, self.sees)
        self.nearest: tuple[Uri, ...] = ()
        """The nearest nodes, if nothing answers the question."""
        self.is_answered = False
        """Whether the search for the question has hits in the knowledge."""

    def add(self, uri: Uri, closeness: int, why: str, *rank: float, paths: list[str] | None = None) -> Found | None:
        """Add a node under its current URI, or add a reason if the node was found before; the closest occurrence
        determines its order.

        Returns None if the node is missing or the caller may not read it.
        """
        uri = self.workspace.graph.resolve(uri)
        if uri in self._left_out or not self.may_see(uri):
            return None
        why = fenced_line(printable(why), LONGEST_REASON)
        found = self._found.get(uri)
        if found is None:
            card = card_of(self.workspace.sources(), uri)
            if card is None:
                return None
            found = self._found[uri] = Found(uri, card, kind_of(card), closeness, rank)
        if closeness < found.closeness:
            found.closeness, found.rank = closeness, rank
            found.reasons = [why, *(one for one in found.reasons if one != why)]
        elif why and why not in found.reasons:
            found.reasons.append(why)
        if paths:
            found.paths += [path for path in map(printable, paths) if path not in found.paths]
        return found

    def add_code(self, uri: Uri, why: str, line: int = 0) -> None:
        """Add a node of the code tree that is not stored, unless it was added before."""
        if uri in self.code or uri in self._left_out or not self.may_see(uri):
            return
        card = card_of(self.workspace.sources(), uri)
        if card is None:
            return
        answer: CodeAnswer = {"uri": uri, "name": card.name or name_of(uri), "why": fenced_line(printable(why), 160)}
        if line := line or card.line:
            answer["line"] = line
        if card.summary and card.summary != answer["name"]:
            answer["summary"] = card.summary
        elif scheme_of(uri) == "chunk" and (overlay := overlay_of(self.workspace)) and (node := overlay.node(uri)):
            answer["text"] = cut_at_word(" ".join(node.content.split()), CHUNK_TEXT)
        self.code[uri] = answer

    def closeness(self, uri: Uri) -> int:
        """The distance of a node from the question; beyond `FAR` if it was not found."""
        found = self._found.get(self.workspace.graph.resolve(uri))
        return found.closeness if found else FAR + 1

    def is_about_symbol(self, uri: Uri) -> bool:
        """Whether the node was found by a symbol, which a reason names, so that its file is no other reason."""
        found = self._found.get(self.workspace.graph.resolve(uri))
        return found is not None and found.of_symbol

    def leave_out(self, uri: Uri) -> None:
        """Exclude the node that the question is about."""
        self._left_out.add(uri)

    def may_see(self, uri: Uri) -> bool:
        return self.sees is None or self.sees(uri)

    def hits(self, query: str, limit: int, types: Sequence[str] | None = None) -> list[Hit]:
        """The best full-text hits in the knowledge that the caller may see; hidden nodes do not use up the limit.

        The code is not searched, because most of its files contain the words of a path.
        """
        return self.workspace.text().search(
            query, types=types, lanes=KNOWLEDGE, limit=limit, sees=self.sees, since=self.since, until=self.until
        )

    def answers(self, question: str, limit: int) -> Retrieved:
        """The hits of `search`: by words, by meaning, and by relations."""
        asked = Question(question, limit=limit, since=self.since, until=self.until)
        return answered(self.session, self.workspace, asked)

    def tagged(self, tags: Sequence[str], limit: int, types: Sequence[str]) -> list[Hit]:
        """The nodes with any of these tags, best first."""
        found = self.workspace.text().by_tags(
            tags, types=types, since=self.since, until=self.until, limit=limit if self.sees is None else LOOKED_THROUGH
        )
        return [hit for hit in found if self.may_see(hit.uri)][:limit]

    def title(self, uri: Uri) -> str:
        return title_of(self.workspace, uri)

    def of_kind(self, *kinds: str) -> list[Found]:
        return [one for one in self.ordered() if one.kind in kinds]

    def ordered(self) -> list[Found]:
        """All nodes in reading order."""
        # The rank of a doubted node would reveal to its author whether a guess about a hidden file that it cites is
        # right.
        doubted = Freshness.of(self.workspace).doubted if self.sees is None else frozenset()
        return sorted(self._found.values(), key=lambda one: one.order(doubted))

    def dated(self) -> list[Found]:
        """The nodes of the period in reading order; nodes that are superseded or not valid now come last, with the
        successor or the reason. The last successor of each is included."""
        self._add_successors()
        index, found = self.workspace.text(), self.ordered()
        if self.since is not None or self.until is not None:
            passing = index.passing([one.uri for one in found], since=self.since, until=self.until)
            known = {one.uri for one in passing}
            found = [one for one in found if one.uri in known]
        lapses = candidates.lapses([one.uri for one in found], index, time.time())
        for one in found:
            if one.uri in lapses and lapses[one.uri] not in one.reasons:
                one.reasons.insert(0, lapses[one.uri])
            one.superseded_by = successor_of(self.workspace, one.uri, self.sees)
        return sorted(found, key=lambda one: one.uri in lapses or one.superseded_by is not None)

    def _add_successors(self) -> None:
        """Add the last successor of each superseded node, as close as the node itself."""
        for one in list(self._found.values()):
            if (last := self.chains.newest(one.uri)) is None:
                continue
            found = self.add(last, one.closeness, f"supersedes {self.title(one.uri)}", *one.rank)
            if found is not None:
                found.on_line, found.of_symbol = found.on_line or one.on_line, found.of_symbol or one.of_symbol

    def __contains__(self, uri: object) -> bool:
        return uri in self._found


def kind_of(card: Card) -> str:
    """The layer of an area, `file` or `dir` for the code tree, otherwise the node's type."""
    scheme = scheme_of(card.uri)
    return scheme if scheme in (*AREAS, *CODE_TREE) else card.type


def in_words(type: str) -> str:
    """A type of relation within a sentence: ``depends on``."""
    return type.replace("_", " ")


RELATIONS = 200
"""Relations of one node that are examined, closest first; the others are counted."""
CHOSEN_FROM = 5_000
"""Largest number of a node's relations from which these are chosen; superseded nodes come last."""
NEIGHBOURS = 30
TAGGED = 10
"""Largest number of nodes by tags, from the specification of context gathering."""
HITS, CODE_HITS = 20, 8
"""Largest number of hits for a question, in knowledge and in code."""
CLEAR = 2 / 3
"""Smallest score of a clear hit for a task, as a share of the best score. Weaker hits come after the rules of the areas
that own the task's files."""
AREAS_FOLLOWED = 40
"""Largest number of areas whose memories and neighbours are examined; an answer of default size has room for as many.
"""
MENTIONS = 8
"""Largest number of paths to look for in the texts of memories."""
STARTS = 120
SYMBOLS_NAMED = 3
"""Largest number of symbols of one file named in a reason."""


@dataclass(frozen=True, slots=True)
class Covered:
    """The paths without an area, and among these the paths that another node names."""

    unmatched: tuple[str, ...] = ()
    described: tuple[str, ...] = ()


def by_paths(findings: Findings, places: Places) -> Covered:
    """Find the areas of the paths, nodes that name the paths, nodes related to those areas, and neighbours."""
    workspace = findings.workspace
    files = [path for path in places.files if _may_see_file(findings, path)]
    asked = [path for path in places.asked if _may_see_file(findings, path)]
    paths = list(dict.fromkeys([*asked, *files]))
    matched = _areas(findings, paths)
    others = file_paths.other_paths(findings.session, workspace, paths)
    named = {path for path in paths if _naming_all(findings, path, others.get(path, ()))}
    _above(findings, asked)
    _above_others(findings, others)
    areas = findings.of_kind(*AREAS)[:AREAS_FOLLOWED]
    _hanging_on(findings, areas)
    _mentioning(findings, [path for path in asked if path and not path.endswith("/")][:MENTIONS])
    _tagged_like(findings, areas)
    starts = [uri for path in asked[:STARTS] if (uri := uri_at("file", workspace.id, path))] if asked != [""] else []
    _neighbours(findings, [*starts, *(one.uri for one in findings.ordered() if one.closeness <= DIRECT)][:STARTS])
    unmatched = [
        path
        for path in dict.fromkeys([*places.asked, *places.files])
        if path not in matched and not (path.endswith("/") or path == "")
    ]
    unmatched += [
        path
        for path in places.asked
        if path.endswith("/") and path not in matched and not any(file.startswith(path) for file in places.files)
    ]
    described = [path for path in unmatched if path in named]
    return Covered((*unmatched, *places.outside), tuple(described))


def by_symbols(findings: Findings, symbols: Sequence[Uri]) -> set[Uri]:
    """Find the nodes about symbols. They come before knowledge about the files and areas of the symbols. Returns
    the symbols that have any."""
    known, rank = set[Uri](), {symbol: number for number, symbol in enumerate(symbols)}
    for fact in code_facts.facts_about(findings.session, findings.workspace, rank):
        number = rank[fact.symbol]
        if scheme_of(fact.uri) not in AREAS and (found := findings.add(fact.uri, ANSWER, fact.why, -1.0, number)):
            found.of_symbol = True
            known.add(fact.symbol)
    return known


def by_files_of(findings: Findings, symbols: Sequence[Uri]) -> None:
    """Find the areas of the files that define these symbols, and the nodes about the files and their folders."""
    files = list(dict.fromkeys(path_of(symbol).rpartition("/")[0] for symbol in symbols))
    paths = [path for path in files if _may_see_file(findings, path)]
    _areas(findings, paths)
    others = file_paths.other_paths(findings.session, findings.workspace, paths)
    for path in paths:
        _naming_all(findings, path, others.get(path, ()))
    _above(findings, paths)
    _above_others(findings, others)


def by_task(findings: Findings, task: Task) -> None:
    """Find the task's dependencies, nodes recorded for it, and nodes with its keywords as tags."""
    findings.leave_out(task.uri)
    for number, uri in enumerate(task.depends_on):
        findings.add(uri, DIRECT, "the task depends on it", number)
    for edge in _incoming(findings, task.uri):
        findings.add(edge.target, NEAR, f"{in_words(edge.type)} the task", edge.weight)
    for edge in islice(findings.workspace.graph.out(task.uri), RELATIONS):
        if edge.target not in task.depends_on and scheme_of(edge.target) not in CODE_TREE:
            findings.add(edge.target, NEAR, f"the task {in_words(edge.type)} it", edge.weight)
    _touched_by(findings, task.uri)
    by_keywords(findings, "\n".join((task.objective, *task.criteria)))


def _touched_by(findings: Findings, task: Uri) -> None:
    """Find the areas that the task created or last changed: an area's data names these tasks."""
    named = findings.workspace.text().with_data_keys([task])
    for uri in sorted(uri for uri in named if scheme_of(uri) in AREAS and findings.may_see(uri))[:TAGGED]:
        node = findings.workspace.readable(uri)
        if node is not None and task in (node.data.get("createdByTaskId"), node.data.get("lastTaskId")):
            findings.add(uri, NEAR, "written for the task")


def by_keywords(findings: Findings, text: str, weak: int = FAR) -> None:
    """Find the hits of a search for a task's text, best first, and memories with its keywords as tags. The clear hits
    answer the task; `weak` is the closeness of the others."""
    _tagged(findings, keywords(text), NEAR)
    if text.strip():
        answers = findings.answers(text[:2_000], TAGGED)
        clear = answers.hits[0].score * CLEAR if answers.hits else 0.0
        for number, answer in enumerate(answers.hits):
            close = weak if answer.steps or answer.score < clear else ANSWER
            if findings.closeness(answer.uri) > close:
                findings.add(answer.uri, close, _found(answer), number)
        for answer in answers.code[:CODE_HITS]:
            findings.add_code(answer.uri, _found(answer), answer.line)


def note_question(findings: Findings, question: str, *, named: bool) -> None:
    """Record whether the search of `by_question` found an answer."""
    found = findings.is_answered or any(one.of_symbol for one in findings.ordered())
    if found or not findings.workspace.meaning.is_partial:
        asked = Question(question, since=findings.since, until=findings.until)
        questions.note(findings.session, findings.workspace, asked, found=found, named=named)


def by_question(findings: Findings, question: str) -> None:
    """Find the hits of a search, best first; then the areas that the hits refer to, and the areas of files that the
    hits refer to; then nodes related to these areas or to the best hits.
    """
    workspace = findings.workspace
    files: list[str] = []
    answers = findings.answers(question, HITS)
    for number, hit in enumerate(answers.hits):
        if found := findings.add(hit.uri, ANSWER, why := _found(hit), number):
            found.of_symbol |= why.startswith(ABOUT_SYMBOL)
    for hit in answers.code[:CODE_HITS]:
        findings.add_code(hit.uri, _found(hit), hit.line)
    findings.nearest, findings.is_answered = answers.nearest, bool(answers.hits)
    hits = [one for one in findings.ordered() if one.closeness == ANSWER]
    for one in hits:
        for edge in islice(workspace.graph.out(one.uri), RELATIONS):
            if scheme_of(edge.target) == "file" and workspace_of(edge.target) == workspace.id:
                files.append(path_of(edge.target))
            elif scheme_of(edge.target) in AREAS:
                findings.add(edge.target, NEAR, f"{findings.title(one.uri)} {in_words(edge.type)} it", edge.weight)
    if hits:  # without hits nothing is known, and neighbours of other nodes would suggest otherwise
        _areas(findings, list(dict.fromkeys(files))[:HITS], closeness=NEAR)
        _hanging_on(findings, findings.of_kind(*AREAS)[:AREAS_FOLLOWED], closeness=FAR)
        # A hit by meaning alone may be wrong, and its neighbours even more so.
        by_words = {hit.uri for hit in answers.hits if hit.lex or not hit.vec}
        _neighbours(findings, [one.uri for one in hits[:5] if one.uri in by_words])


# ---- steps


def _found(hit: Answered) -> str:
    """The reason for a hit, in words."""
    if about := next((one for one in hit.why if one.startswith((ABOUT_PATH, ABOUT_SYMBOL))), ""):
        return about
    words = [one for one in hit.why if not one.startswith(("via ", "helped by "))]
    ways = [one for one in hit.why if one not in words]
    return "found " + (", ".join(([f"by {', '.join(words)}"] if words else []) + ways) or "by its name")


def _areas(findings: Findings, paths: Sequence[str], closeness: int = DIRECT) -> set[str]:
    """Add the atoms that own the paths, each after its molecule; return the paths that have an owner.

    Narrower atoms come first; equally narrow atoms are sorted by number of paths, then by name. Atoms whose paths all
    have a narrower owner come last.
    """
    atlas = Atlas.of(findings.workspace)
    matches = atlas.matching(paths, sees=findings.sees, at_home=findings.session.principal is None, most=STEPS)
    atoms = [(atom, mine) for uri, mine in matches.by_atom.items() if (atom := atlas.atom(uri)) is not None]
    atoms.sort(key=lambda one: (-one[0].depth, -len(one[1]), one[0].name, one[0].uri))
    first_of: dict[str, Uri] = {}
    for atom, mine in atoms:
        for path in mine:
            first_of.setdefault(path, atom.uri)
    narrowest = set(first_of.values())
    atoms.sort(key=lambda one: one[0].uri not in narrowest)
    groups: dict[Uri, list[tuple[Atom, list[str]]]] = {}
    for atom, mine in atoms:
        groups.setdefault(atom.molecule or atom.uri, []).append((atom, mine))
    for number, (group, members) in enumerate(groups.items()):
        if group != members[0][0].uri:
            names = [atom.name for atom, _ in members]
            others = f" and {len(names) - 3} more of its areas" if len(names) > 3 else ""
            findings.add(group, closeness, f"group of {', '.join(names[:3])}{others}", number, 0)
        for place, (atom, mine) in enumerate(members, 1):
            shown = [path for path in mine if not path.endswith("/") and path] or mine
            findings.add(atom.uri, closeness, f"owns {_told(shown)}", number, place, paths=shown)
    return set(paths) - set(matches.unmatched)


def _naming_all(findings: Findings, path: str, others: Sequence[OtherPath]) -> bool:
    """As `_naming`, under each path of the file."""
    return any([_naming(findings, path, path), *(_naming(findings, one.path, one.label) for one in others)])


def _naming(findings: Findings, path: str, label: str) -> bool:
    """Add nodes related to the file, with the file's own node. Returns whether there are any.

    `label` is the path as the reasons show it.
    """
    if path.endswith("/") or not path:
        return False
    uri = uri_at("file", findings.workspace.id, path)
    if uri is None:
        return False
    known = False
    for edge in _incoming(findings, uri):
        if scheme_of(edge.target) not in AREAS:
            known |= findings.add(edge.target, DIRECT, f"{in_words(edge.type)} {label}", edge.weight) is not None
    every = Freshness.of(findings.workspace).citing(path)
    if len(every) > RELATIONS:
        every = findings.chains.current_first(every[:CHOSEN_FROM])
    for citing in every[:RELATIONS]:
        if scheme_of(citing) not in AREAS:
            how = "" if findings.is_about_symbol(citing) else _citing(findings, citing, path, label)
            known |= findings.add(citing, DIRECT, how, 0.0) is not None
    if findings.workspace.graph.card(uri) is not None:
        node = findings.workspace.readable(uri)
        if node is not None and (node.summary or node.content):
            known |= findings.add(uri, DIRECT, "recorded about the file itself") is not None
    return known


def _citing(findings: Findings, uri: Uri, path: str, label: str) -> str:
    """How a node cites a file: ``about Keys.rotate in src/keys.py``, or ``cites src/keys.py`` if it cites all of it."""
    workspace = findings.workspace
    types = {edge.target: edge.type for edge in workspace.graph.out(uri) if scheme_of(edge.target) == "symbol"}
    names: dict[str, list[str]] = {}
    for one in Freshness.of(workspace).citations(uri):
        if one.path == path and one.symbol:
            symbol = uri_at("symbol", workspace.id, f"{path}/{one.symbol}")
            named = names.setdefault(in_words(types.get(symbol, "cites") if symbol else "cites"), [])
            named += [] if one.symbol in named else [one.symbol]
    ways = [f"{how} {', '.join(some[:SYMBOLS_NAMED])}" for how, some in names.items()]
    return f"{' and '.join(ways)} in {label}" if ways else f"cites {label}"


def _above_others(findings: Findings, others: Mapping[str, Iterable[OtherPath]]) -> None:
    """Add nodes related to the former and later folders of the files, if these folders do not exist."""
    pairs = [(path, one) for path, some in others.items() for one in some]
    own = {one.path.rstrip("/"): (path, one) for path, one in pairs if one.path.endswith("/")}
    folders = {folder: (path, one) for path, one in pairs for folder in above(one.path) if folder} | own
    for folder, (path, other) in folders.items():
        uri = uri_at("dir", findings.workspace.id, folder)
        if uri is None or file_paths.is_known(findings.session, findings.workspace, folder):
            continue
        for one in filter(None, (uri, uri_at("file", findings.workspace.id, folder))):
            for edge in _incoming(findings, one):
                told = f"{in_words(edge.type)} {folder}/, {_place_of(path, other, folder)}"
                findings.add(edge.target, DIRECT, told, 1 + edge.weight)


def _place_of(path: str, other: OtherPath, folder: str) -> str:
    """What a missing folder is to a path, in words."""
    if other.path == f"{folder}/":
        return f"the {'former' if other.is_former else 'new'} path of {path}"
    return f"the {'former' if other.is_former else 'new'} folder of {path}"


def _above(findings: Findings, paths: Iterable[str]) -> None:
    """Add nodes related to the directories of the paths, nearest first."""
    seen: set[str] = set()
    for path in paths:
        own = [path.rstrip("/")] if path.endswith("/") or not path else []
        for distance, folder in enumerate([*own, *above(path)]):
            if folder in seen:
                continue
            seen.add(folder)
            if (uri := uri_at("dir", findings.workspace.id, folder)) is None:
                continue
            for edge in _incoming(findings, uri):
                if scheme_of(edge.target) not in CODE_TREE:
                    told = f"{in_words(edge.type)} {_folder(folder)}"
                    findings.add(edge.target, DIRECT, told, distance + edge.weight)


def _folder(path: str) -> str:
    return f"{path}/" if path else "the whole code tree"


def _hanging_on(findings: Findings, areas: Sequence[Found], closeness: int = NEAR) -> None:
    """Add nodes related to the areas in either direction; other areas get the distance `FAR`."""
    graph = findings.workspace.graph
    for number, area in enumerate(areas):
        name = findings.title(area.uri)
        for edge in _incoming(findings, area.uri):
            is_area = scheme_of(edge.target) in AREAS
            told = f"{in_words(edge.type)} {name}{_reason(findings, edge.target, area.uri, edge.type)}"
            findings.add(edge.target, FAR if is_area else closeness, told, edge.weight, number)
        for edge in islice(graph.out(area.uri), RELATIONS):
            if scheme_of(edge.target) in CODE_TREE:
                continue
            is_area = scheme_of(edge.target) in AREAS
            told = f"{name} {in_words(edge.type)} it{_reason(findings, area.uri, edge.target, edge.type)}"
            findings.add(edge.target, FAR if is_area else closeness, told, edge.weight, number)


def _reason(findings: Findings, source: Uri, target: Uri, type: str) -> str:
    """The reason stored with a relation, as a suffix; empty without one."""
    reason = findings.workspace.graph.relation_data(source, target, type).get("reason")
    return f": {cut_at_word(reason, 90)}" if isinstance(reason, str) and reason.strip() else ""


def _mentioning(findings: Findings, paths: Sequence[str]) -> None:
    """Add memories whose text names a path to which they have no relation."""
    workspace = findings.workspace
    for path in paths:
        tail = "/".join(path.split("/")[-2:])
        for hit in findings.hits(path, 5, MEMORIES):
            if hit.uri in findings:
                continue
            node = workspace.readable(hit.uri)
            data = {key: value for key, value in node.data.items() if key != RENAMED} if node else {}
            texts = () if node is None else (node.summary, node.content, str(data))
            if any(file_paths.is_named(path, text) for text in texts):
                findings.add(hit.uri, NEAR, f"mentions {tail}", 1.0)


def _tagged_like(findings: Findings, areas: Sequence[Found]) -> None:
    """Add memories that have the name of an area as a tag."""
    names = [word for area in areas[:6] for word in keywords(findings.title(area.uri), 4)]
    _tagged(findings, names, FAR)


def _tagged(findings: Findings, tags: Sequence[str], closeness: int) -> None:
    """Add memories with any of these tags."""
    for number, hit in enumerate(findings.tagged(tags, TAGGED, MEMORIES)):
        findings.add(hit.uri, closeness, ", ".join(hit.why), number)


def _neighbours(findings: Findings, starts: Sequence[Uri]) -> None:
    """Add the nodes that a walk of cost 1 reaches in either direction: dependents and dependencies."""
    workspace = findings.workspace
    if not starts:
        return
    sources = visibility.sources(findings.session, workspace.id, workspace.sources())
    walk = traverse(
        sources, list(dict.fromkeys(starts)), max_cost=1.0, direction="both", max_nodes=len(starts) + NEIGHBOURS
    )
    asked = {path_of(uri) for uri in starts if scheme_of(uri) == "file"}
    for node in walk.nodes:
        if not node.path or node.path[-1].type == "contains" or scheme_of(node.uri) == "dir" or node.uri in findings:
            continue
        if workspace.graph.card(node.uri) is not None:
            findings.add(node.uri, FAR, _way(findings, node), node.cost)
        elif findings.with_symbols or _depends(node, asked):
            findings.add_code(node.uri, _way(findings, node))


def _depends(node: Visited, asked: Collection[str]) -> bool:
    """Whether a node of the code tree uses its predecessor. Symbols and imports of the file itself are ignored."""
    if scheme_of(node.uri) == "symbol" and any(path_of(node.uri).startswith(f"{path}/") for path in asked):
        return False
    return node.path[-1].direction == "in" and node.path[-1].type not in ("defines", "has_chunk", "part_of")


def _way(findings: Findings, node: Visited) -> str:
    step = node.path[-1]
    there = _folder(path_of(step.uri)) if scheme_of(step.uri) == "dir" else findings.title(step.uri)
    return f"{there} {in_words(step.type)} it" if step.direction == "out" else f"{in_words(step.type)} {there}"


def _incoming(findings: Findings, uri: Uri) -> list[Edge]:
    edges = findings.workspace.graph.into(uri)
    if findings.sees is None and len(edges) > RELATIONS:
        findings.beyond[uri] = len(edges) - RELATIONS
        edges = sorted(edges[:CHOSEN_FROM], key=lambda edge: findings.chains.newest(edge.target) is not None)
    return list(islice((edge for edge in edges if findings.may_see(edge.target)), RELATIONS))


def _may_see_file(findings: Findings, path: str) -> bool:
    if findings.sees is None:
        return True
    uri = uri_at("dir" if path.endswith("/") or not path else "file", findings.workspace.id, path)
    return uri is not None and findings.sees(uri)


def _told(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more of the paths"
