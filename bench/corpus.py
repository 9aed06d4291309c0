"""Generated workspaces for the measurements: made-up knowledge in an ordinary repository.

A node has four relations and about 685 bytes, folders hold 25 nodes, and every 50 nodes are one commit, so that
versions come from a history. Equal for equal sizes.
"""

from __future__ import annotations

import itertools
import random
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import orjson

from kgd.codec import documents, paths
from kgd.codec.settings import first_files
from kgd.git.creation import create_standalone, fill_work_tree
from kgd.git.layout import OWN_BRANCH, Layout, locate
from kgd.git.refs import HEAD
from kgd.model.node import Node, Relation
from kgd.model.uri import Uri

WORKSPACE = "bench"
NODES_PER_COMMIT = 50
TYPES = ("depends_on", "is_a", "related_to", "implemented_in", "tested_by", "replaces")
KINDS = ("concept", "decision", "pattern", "gotcha", "insight")
WEIGHTS = (0.0, 0.25, 0.5, 0.5, 1.0)
SYLLABLES = tuple(a + b for a in "bcdfghklmnprstvz" for b in "aeiou")


@dataclass(frozen=True, slots=True)
class Made:
    """A workspace of a known size."""

    layout: Layout
    nodes: int


def _vocabulary(size: int = 20_000) -> tuple[list[str], list[float]]:
    """Made-up words, and how often each is used by Zipf's law, summed up."""
    chance = random.Random(2)
    known = ["".join(chance.choices(SYLLABLES, k=chance.randint(2, 4))) for _ in range(size)]
    return known, list(itertools.accumulate(1 / (n + 3) for n in range(size)))


WORDS, _SUMS = _vocabulary()


def uri_of(number: int) -> Uri:
    """Names vary as real names do: no word is in all of them."""
    folder = f"area{number // 2500:02d}/part{number // 25 % 100:02d}"
    return Uri(f"concept://{WORKSPACE}/{folder}/{WORDS[100 + number % 7000]}-{number:07d}")


def node(number: int, total: int, chance: random.Random) -> Node:
    """Node `number` of a graph of `total`: most relations stay near, some go anywhere."""
    relations: dict[tuple[str, Uri], Relation] = {}
    while len(relations) < 4:
        near = (number // 25 * 25 + chance.randrange(25)) % total
        target = near if chance.random() < 0.8 else chance.randrange(total)
        type = chance.choice(TYPES)
        relations[type, uri_of(target)] = Relation(type, uri_of(target), chance.choice(WEIGHTS))
    return Node(
        uri_of(number),
        KINDS[number % len(KINDS)],
        _said(chance, 3)[:-1],
        _said(chance, 8)[:100],
        "\n".join(_said(chance, 7) for _ in range(2)),
        tuple(chance.sample(WORDS[:500], 3)),
        {"importance": round(chance.random(), 2)},
        relations=tuple(relations.values()),
    )


def newcomer(total: int, chance: random.Random) -> Node:
    """A new node with a relation to an existing node."""
    like = node(chance.randrange(total), total, chance)
    return replace(like, uri=Uri(f"{like.uri}-{chance.randrange(10**9):09d}"))


def _said(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(WORDS, cum_weights=_SUMS, k=words)).capitalize() + "."


def corpus(total: int, seed: int = 1) -> Iterator[Node]:
    chance = random.Random(seed)
    return (node(number, total, chance) for number in range(total))


def kept(directory: Path, total: int) -> Made:
    """The corpus of that size in `directory`, made unless an earlier run has left it there."""
    if not directory.exists():
        new = directory.with_name(f"{directory.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        build(new, total)
        new.rename(directory)
    layout = locate(directory)
    assert layout
    return Made(layout, total)


def build(
    directory: Path,
    total: int,
    *,
    work_tree: bool = True,
    nodes: Iterable[Node] | None = None,
    each: int = NODES_PER_COMMIT,
) -> Made:
    """A new workspace in `directory`, by fast-import, with or without files in the work tree.

    It holds the corpus of that size, or these nodes; `each` is the number of nodes in a commit. A later node
    replaces an earlier one with the same URI.
    """
    layout = create_standalone(directory, WORKSPACE, first_files(WORKSPACE))
    importing = subprocess.Popen(
        ["git", "--git-dir", layout.git_dir, "fast-import", "--quiet", "--depth=0"], stdin=subprocess.PIPE
    )
    assert importing.stdin
    _write(importing.stdin, corpus(total) if nodes is None else nodes, each)
    importing.stdin.close()
    if importing.wait():
        raise RuntimeError("git fast-import failed")
    # Packed as by maintenance; fast-import stores objects in order of arrival.
    subprocess.run(["git", "--git-dir", layout.git_dir, "repack", "-adq", "--window=0"], check=True)
    if work_tree:
        (layout.git_dir / "index").unlink()
        for name in first_files(WORKSPACE):
            (layout.work_tree / name).unlink()
        fill_work_tree(layout)
    return Made(layout, total)


def _write(stream: IO[bytes], nodes: Iterable[Node], each: int) -> None:
    for number, made in enumerate(nodes):
        if number % each == 0:
            when = 1_700_000_000 + number
            stream.write(b"commit %s\ncommitter Ann Bench <ann@example.org> %d +0000\n" % (OWN_BRANCH.encode(), when))
            stream.write(b"data 4\nmore\n" + (b"from %s^0\n" % OWN_BRANCH.encode() if not number else b""))
        data = documents.encode(made)
        stream.write(b"M 100644 inline %s\ndata %d\n%s\n" % (paths.path_of(made.uri).encode(), len(data), data))
    stream.write(b"reset %s\nfrom %s\n" % (HEAD.encode(), OWN_BRANCH.encode()))


def peer_lines(nodes: Iterable[Node]) -> Iterator[bytes]:
    """The same knowledge as the official memory server keeps it: one JSON object a line."""
    for one in nodes:
        yield orjson.dumps({"type": "entity", **entity(one)}) + b"\n"
        for relation in one.relations:
            known = {"from": one.uri, "to": relation.target, "relationType": relation.type}
            yield orjson.dumps({"type": "relation", **known}) + b"\n"


def entity(one: Node) -> dict[str, Any]:
    return {"name": one.uri, "entityType": one.type, "observations": [one.name, *one.content.splitlines()]}


def write_peer_file(file: Path, total: int) -> None:
    with open(file, "wb") as out:
        out.writelines(peer_lines(corpus(total)))


def upsert(one: Node) -> dict[str, Any]:
    """The change that creates this node, as a client of `put` writes it."""
    return {
        "op": "upsert",
        "uri": one.uri,
        "type": one.type,
        "name": one.name,
        "summary": one.summary,
        "content": one.content,
        "tags": list(one.tags),
        "relations": [{"type": r.type, "target": r.target, "weight": r.weight} for r in one.relations],
    }
