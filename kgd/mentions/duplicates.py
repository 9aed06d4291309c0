"""Duplicates: pairs of nodes about the same subject, by equal names, similar names, or meaning; and their merge.

After a merge, one node has everything of the other and answers to its URI.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil

from kgd.mentions.matching import phrase_key
from kgd.model.change import Delete, Edit, Unrelate, Upsert
from kgd.model.node import Node, Relation
from kgd.model.uri import Uri, scheme_of

ALIKE = 0.8
"""Share of common trigrams (of those in either name) above which two names may be one."""
NEAR = 0.9
"""Cosine of two texts of one type above which they may be about the same subject."""
LEAST_LETTERS = 6
"""Letters that a name needs to be compared by trigrams: shorter names differ by a single letter."""
MOST_OF_ONE = 20
"""Nodes of one name that are compared; more of them share the name on purpose."""
NOT_THINGS = frozenset(
    [
        "chunk",
        "message",
        "symbol",
        "file",
        "dir",
        "document",
        "thread",
        "task",
        "decision",
        "gotcha",
        "insight",
        "pattern",
        "atom",
        "molecule",
    ]
)
"""Schemes and types whose nodes often share a name."""
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Named:
    """A node to compare. `names` has its own name first, then its aliases."""

    uri: Uri
    type: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Double:
    """Two nodes that may be one, the better one first; `score` is 1 for equal names."""

    keep: Uri
    drop: Uri
    score: float
    reason: str


def may_be_double(uri: Uri, type: str) -> bool:
    return scheme_of(uri) not in NOT_THINGS and type not in NOT_THINGS


def doubles(
    nodes: Iterable[Named], near: Callable[[Sequence[Named]], Iterable[tuple[Uri, Uri, float]]] | None = None
) -> list[Double]:
    """Pairs within one type, most similar first, then by URI. Each pair once, with its strongest reason.

    Linear in the nodes, except for those whose names share their rarest trigrams.

    Args:
        near: Returns, for nodes of one type, pairs with near texts and the cosine; those above `NEAR` count.
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
                (a, b, cosine, f"their texts mean the same (cosine {cosine:.2f})")
                for a, b, cosine in near(of_type)
                if cosine > NEAR and _has_numbers_of(known[a].names[0], known[b].names[0])
            ]
        for a, b, score, reason in pairs:
            keep, drop = (one.uri for one in sorted((known[a], known[b]), key=_stays))
            before = found.get((keep, drop))
            if before is None or score > before.score:
                found[keep, drop] = Double(keep, drop, score, reason)
    return sorted(found.values(), key=lambda one: (-one.score, one.keep, one.drop))


def _stays(node: Named) -> tuple[int, int, Uri]:
    """Sort key: nodes named by hand before those named by a machine, then the shorter URI."""
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
                yield a, b, 1.0, f"both go by the name '{called[a]}'"


def _alike(nodes: Sequence[Named]) -> Iterator[tuple[Uri, Uri, float, str]]:
    """Prefix filtering: similar names share one of their few rarest trigrams."""
    grams = {node.uri: found for node in nodes if (found := trigrams(node.names[0]))}
    name = {node.uri: node.names[0] for node in nodes}
    often = Counter(gram for found in grams.values() for gram in found)
    # "Release 2" and "release 3" share most trigrams, as thousands may, so names with other numbers never meet.
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
                yield a, b, round(score, 3), f"'{name[a]}' and '{name[b]}' are nearly one name ({score:.2f} alike)"


def _has_numbers_of(one: str, other: str) -> bool:
    """Whether two names have the same numbers: "Release 2" and "release 3" are similar but two things."""
    return _NUMBER.findall(one) == _NUMBER.findall(other)


def trigrams(name: str) -> frozenset[str]:
    """Trigrams of the folded words with blanks around them; empty for names too short to compare."""
    folded = " ".join(phrase_key(name) or ())
    padded = f"  {folded} "
    return frozenset(padded[n : n + 3] for n in range(len(padded) - 2)) if len(folded) >= LEAST_LETTERS else frozenset()

    # ---- merging


SETS = ("paths", "observations", "cites")
"""Keys of `data` whose lists are united."""


def merged(keep: Node, drops: Sequence[Node], versions: Sequence[int]) -> tuple[Edit, ...]:
    """The edits of a merge: `keep` gets the relations, tags, data and names of the others, their texts after its own,
    and their URIs as aliases, so that links to them still work. The others are deleted.

    For a key of `data` or a relation that several nodes have, the value of `keep` counts, then the first other; lists
    of `SETS` are united. `versions` are the versions of all nodes as read; the change is refused if one has changed.
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
    upsert = Upsert(
        keep.uri,
        name=_first(node.name for node in all_of_them),
        summary=_first(node.summary for node in all_of_them),
        content=_joined(keep, drops),
        tags=tuple(tag for node in drops for tag in node.tags),
        data=data,
        relations=tuple(one for key, one in leading.items() if key not in known),
        aliases=tuple(uri for node in drops for uri in (node.uri, *node.aliases)),
        expect_version=versions[0],
    )
    gone = (Delete(node.uri, version) for node, version in zip(drops, versions[1:], strict=True))
    return (*itself, *gone, upsert)


def _first(texts: Iterable[str]) -> str | None:
    return next(filter(None, texts), None)


def _joined(keep: Node, drops: Sequence[Node]) -> str | None:
    """The contents of all nodes, each text once; None if nothing is new."""
    text = keep.content
    for node in drops:
        said = node.content.strip()
        if said and said not in text:
            text = f"{text.rstrip()}\n\n{said}\n" if text.strip() else node.content
    return text if text != keep.content else None


def _listed(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
