"""Candidates for new nodes and for merges; a user or a model decides on them.

**New nodes:** names that are in many texts but do not belong to a node. They are found only by capital letters, so the
same texts always give the same names.

**Merges:** pairs of nodes about the same subject, by equal names, similar names, or meaning. After a merge, one node
has all content of the other node, whose URI becomes an alias.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil
from typing import Any

from kgd.index.words import STOPWORDS
from kgd.mentions.matching import WRITTEN, phrase_key
from kgd.model.change import Delete, Edit, Unrelate, Upsert
from kgd.model.node import PLAIN, Node, NodeField, Relation, Shape
from kgd.model.uri import Uri, scheme_of

LEAST_TEXTS = 3
"""Minimum number of texts that must contain a name for it to be suggested."""
LONGEST = 6
"""Maximum number of words in a candidate; longer runs of capitalised words are headlines."""
LONGEST_RUN = 40
EXAMPLES = 3
_JOINS = "of the de du des la le di da von van der den &"
_JOINING = frozenset(_JOINS.split())
_TIMES = """
monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september
october november december today tomorrow yesterday
"""
_EMPTY = STOPWORDS | frozenset(_TIMES.split()) | {"true", "false", "none", "null", "todo"}
"""Words with which a name does not begin or end."""
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+|\n+")
_TOKEN = re.compile(r"[^\W_](?:[\w'’-]*[^\W_])?|&|[^\w\s]")
_OWNED = re.compile(r"['’]s$")
_MARKUP = re.compile(r"^\s*(?:#{1,6}\s|[-*+]\s|>\s|\|)+")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A name in its most frequent spelling, the number of texts that contain it, and some of them."""

    key: str
    name: str
    count: int
    texts: tuple[Uri, ...]


def candidates(
    texts: Iterable[tuple[Uri, str]],
    known: Callable[[Collection[str]], Collection[str]],
    least: int = LEAST_TEXTS,
    most: int | None = None,
) -> list[Candidate]:
    """Names in at least `least` of these texts, the most frequent first, then alphabetically.

    Args:
        known: Returns the names that a node already has: folded, or in a program's spelling after `WRITTEN`.
        most: Number of texts above which a name of one word is too common to identify a node.
    """
    count, written = Counter[str](), dict[str, Counter[str]]()
    where: dict[str, list[Uri]] = {}
    for uri, text in texts:
        here: dict[str, str] = {}
        for phrase in phrases_of(text):
            if words := phrase_key(phrase):
                here.setdefault(" ".join(words), phrase)
        for key, phrase in here.items():
            count[key] += 1
            written.setdefault(key, Counter())[phrase] += 1
            if len(where.setdefault(key, [])) < EXAMPLES:
                where[key].append(uri)
    often = [key for key, number in count.items() if number >= least and not _is_said_to(key, count)]
    if most is not None:
        often = [key for key in often if " " in key or count[key] <= most]
    found = [
        Candidate(key, min(written[key], key=lambda name: (-written[key][name], name)), count[key], tuple(where[key]))
        for key in often
    ]
    taken = set(known([*often, *(WRITTEN + one.name for one in found)]))
    free = [one for one in found if one.key not in taken and WRITTEN + one.name not in taken]
    return sorted(free, key=lambda one: (-one.count, one.name))


def _is_said_to(key: str, count: Counter[str]) -> bool:
    """Whether the candidate begins with the first word of a sentence, as in "Thanks Ann", so that only the words after
    it are the name."""
    _, _, rest = key.partition(" ")
    return bool(rest) and count[rest] >= 2 * count[key]


def phrases_of(text: str) -> Iterator[str]:
    """Runs of capitalised words within one sentence; a single word only if it does not begin the sentence."""
    for sentence in _SENTENCE.split(text):
        yield from _in_sentence(_TOKEN.findall(_MARKUP.sub("", sentence)))


def _in_sentence(tokens: Sequence[str]) -> Iterator[str]:
    start: int | None = None
    for at in range(len(tokens) + 1):
        token = tokens[at] if at < len(tokens) else "."
        if _is_capital(token) and not (start is not None and _OWNED.search(tokens[at - 1])):
            start = at if start is None else start
        elif start is not None and not (token in _JOINING and at + 1 < len(tokens) and _is_capital(tokens[at + 1])):
            if found := _trimmed(tokens[start:at], begins=start == 0):
                yield found
            start = at if _is_capital(token) else None


def _is_capital(token: str) -> bool:
    return token[0].isupper() and not token.isdigit()


def _trimmed(run: Sequence[str], *, begins: bool) -> str:
    if len(run) > LONGEST_RUN:
        return ""
    words = [_OWNED.sub("", word) for word in run]
    while words and words[0].lower() in _EMPTY:
        words, begins = words[1:], False
    while words and words[-1].lower() in _EMPTY:
        words = words[:-1]
    if not words or len(words) > LONGEST or (len(words) == 1 and begins):
        return ""
    return " ".join(words)


ALIKE = 0.8
"""Share of common trigrams, among those in either name, above which two names may be the same."""
NEAR = 0.9
"""Similarity (0 for unrelated texts) above which the texts of two nodes of one type may be about the same subject."""
LEAST_LETTERS = 6
"""Minimum number of letters for a name to be compared by trigrams: shorter names may differ in only one letter."""
MOST_OF_ONE = 20
"""Maximum number of nodes with one name that are compared; more nodes share a name deliberately."""
NOT_THINGS = frozenset(
    """
    chunk message symbol file dir document thread task decision gotcha insight pattern atom molecule
    """.split()
)
"""Schemes and types whose nodes often share a name."""
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Named:
    """A node to compare. `names` has the node's own name first, then its aliases."""

    uri: Uri
    type: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Double:
    """Two nodes that may be duplicates, with the one to keep first; `score` is 1 for equal names."""

    keep: Uri
    drop: Uri
    score: float
    reason: str


def may_be_double(uri: Uri, type: str) -> bool:
    return scheme_of(uri) not in NOT_THINGS and type not in NOT_THINGS


def doubles(
    nodes: Iterable[Named], near: Callable[[Sequence[Named]], Iterable[tuple[Uri, Uri, float]]] | None = None
) -> list[Double]:
    """Pairs within one type, most similar first, then by URI. Each pair is returned once, with its strongest reason.

    Takes linear time, except for nodes whose names share their rarest trigrams.

    Args:
        near: Returns, for nodes of one type, pairs with similar texts and the similarity of each; only pairs above
            `NEAR` are used.
    """
    found: dict[tuple[Uri, Uri], Double] = {}
    by_type: dict[str, list[Named]] = defaultdict(list)
    for node in nodes:
        by_type[node.type].append(node)
    for of_type in by_type.values():
        known = {node.uri: node for node in of_type}
        pairs = [*_same(of_type), *_alike(of_type)]
        if near is not None:
            pairs += [
                (a, b, likeness, f"their texts have the same meaning (similarity {likeness:.2f})")
                for a, b, likeness in near(of_type)
                if likeness > NEAR and _has_numbers_of(known[a].names[0], known[b].names[0])
            ]
        for a, b, score, reason in pairs:
            keep, drop = (one.uri for one in sorted((known[a], known[b]), key=_stays))
            before = found.get((keep, drop))
            if before is None or score > before.score:
                found[keep, drop] = Double(keep, drop, score, reason)
    return sorted(found.values(), key=lambda one: (-one.score, one.keep, one.drop))


def _stays(node: Named) -> tuple[int, int, Uri]:
    """The sort key: nodes named by a person before nodes named by a program, then the shorter URI."""
    return scheme_of(node.uri) == "entity", len(node.uri), node.uri


def _same(nodes: Sequence[Named]) -> Iterator[tuple[Uri, Uri, float, str]]:
    by_name: dict[str, dict[Uri, str]] = defaultdict(dict)
    for node in nodes:
        for name in node.names:
            if words := phrase_key(name):
                by_name[" ".join(words)].setdefault(node.uri, name)
    for called in by_name.values():
        if len(called) <= MOST_OF_ONE:
            for a, b in combinations(sorted(called), 2):
                yield a, b, 1.0, f"both have the name '{called[a]}'"


def _alike(nodes: Sequence[Named]) -> Iterator[tuple[Uri, Uri, float, str]]:
    """Pairs with similar names, found by prefix filtering: similar names share at least one of their few rarest
    trigrams."""
    grams = {node.uri: found for node in nodes if (found := trigrams(node.names[0]))}
    name = {node.uri: node.names[0] for node in nodes}
    often = Counter(gram for found in grams.values() for gram in found)
    # "Release 2" and "release 3" share most trigrams, and there may be thousands of such names, so names with different
    # numbers are never compared.
    together: dict[tuple[str, ...], list[Uri]] = defaultdict(list)
    for uri, found in grams.items():
        ordered = sorted(found, key=lambda gram: (often[gram], gram))
        for gram in ordered[: len(found) - ceil(ALIKE * len(found)) + 1]:
            together[gram, *_NUMBER.findall(name[uri])].append(uri)
    seen = set[tuple[Uri, Uri]]()
    for uris in together.values():
        for a, b in combinations(sorted(uris), 2) if len(uris) <= MOST_OF_ONE * MOST_OF_ONE else ():
            if (a, b) in seen:
                continue
            seen.add((a, b))
            score = len(grams[a] & grams[b]) / len(grams[a] | grams[b])
            if score > ALIKE:
                yield a, b, round(score, 3), f"'{name[a]}' and '{name[b]}' are similar names ({score:.2f})"


def _has_numbers_of(one: str, other: str) -> bool:
    """Whether two names have the same numbers: "Release 2" and "release 3" are similar but different things."""
    return _NUMBER.findall(one) == _NUMBER.findall(other)


def trigrams(name: str) -> frozenset[str]:
    """The trigrams of the folded words with spaces around them; empty for names that are too short to compare."""
    folded = " ".join(phrase_key(name) or ())
    padded = f"  {folded} "
    return frozenset(padded[n : n + 3] for n in range(len(padded) - 2)) if len(folded) >= LEAST_LETTERS else frozenset()

    # ---- merging


SETS = ("paths", "observations", "cites")
"""Keys of `data` whose lists are united."""


def merged(keep: Node, drops: Sequence[Node], versions: Sequence[int]) -> tuple[Edit, ...]:
    """The edits of a merge: `keep` receives the relations, tags, data and names of the other nodes. Their texts are
    appended to its own text, and their URIs become its aliases, so that links to them still work. The other nodes are
    deleted.

    If several nodes set the same field, `data` key, relation or unknown key, the value of `keep` is used, or else the
    value of the first other node that sets it; lists in `SETS` are united. `versions` are the versions of all nodes as
    read; the change is refused if one of these nodes has changed.
    """
    all_of_them = (keep, *drops)
    uris = {node.uri for node in all_of_them}
    names = _listed(keep.data.get("aliases"))
    names += [name for node in drops for name in (node.name, *_listed(node.data.get("aliases")))]
    spelt = {name.lower(): name for name in reversed(names) if name and name.lower() != keep.title.lower()}
    aliases = list(reversed(spelt.values()))
    data = {key: value for node in reversed(drops) for key, value in node.data.items() if key not in keep.data}
    for key in SETS:
        together = list(dict.fromkeys(one for node in all_of_them for one in _listed(node.data.get(key))))
        if together and together != keep.data.get(key):
            data[key] = together
    data.pop("aliases", None)
    if aliases:
        data["aliases"] = aliases
    leading: dict[tuple[str, str], Relation] = {}
    for node in all_of_them:
        for one in node.relations:
            if one.target not in uris:
                leading.setdefault(one.key, one)
    known = {one.key for one in keep.relations}
    itself = [Unrelate(keep.uri, one.target, one.type) for one in keep.relations if one.target in uris - {keep.uri}]
    plain: dict[str, Any] = {row.name: _combined(row, keep, drops) for row in PLAIN if row.shape is not Shape.LABEL}
    upsert = Upsert(
        keep.uri,
        **plain,
        data=data,
        relations=tuple(one for key, one in leading.items() if key not in known),
        aliases=tuple(uri for node in drops for uri in (node.uri, *node.aliases)),
        others={key: node.others[key] for node in reversed(drops) for key in node.others if key not in keep.others},
        expect_version=versions[0],
    )
    gone = (Delete(node.uri, version) for node, version in zip(drops, versions[1:], strict=True))
    return (*itself, *gone, upsert)


def _combined(row: NodeField, keep: Node, drops: Sequence[Node]) -> str | Sequence[str] | None:
    """The value of a field for the upsert of `keep`."""
    own, others = getattr(keep, row.name), [getattr(node, row.name) for node in drops]
    if row.shape is Shape.NAMES:
        return tuple(name for names in others for name in names)
    return _joined(own, others) if row.shape is Shape.TEXT else next(filter(None, (own, *others)), None)


def _joined(own: str, others: Iterable[str]) -> str | None:
    """The node's own text with every other text that it does not contain; None if there is no such text."""
    text = own
    for other in others:
        said = other.strip()
        if said and said not in text:
            text = f"{text.rstrip()}\n\n{said}\n" if text.strip() else other
    return text if text != own else None


def _listed(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
