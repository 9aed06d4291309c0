"""Simulation of the merge alone: replicas as plain values, no git, no files, thousands of schedules a second.

One seed is one schedule: 2 to 5 replicas edit, move, delete, resolve and merge in any order, on a real commit graph
with criss-crosses. Every text written is a unique token, so that a loss shows.

    python -m tests.sim.planner SEED          prints the schedule step by step
    python -m tests.sim.planner FIRST COUNT   runs many
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from random import Random

from kgd.model.conflict import PLACE, TWIN, WHOLE, Conflict, FieldConflict, by_field, canonical_json, disagreement, held
from kgd.model.fields import field_of, plain
from kgd.model.merge import Merged, is_of_node
from kgd.model.merge_graph import Graph, combined, merge_graphs, renamed, twin, with_decision
from kgd.model.node import Node, Relation
from kgd.model.uri import Uri, collision_key
from kgd.workspace.merging.histories import common_content

NAMES = [Uri(f"concept://ws/{name}") for name in ("a", "b", "c", "A")]
TOKEN = re.compile(r"t\d+;")


class Broken(AssertionError):
    """A law of the merge does not hold."""


@dataclass(slots=True)
class Commit:
    id: int
    graph: Graph
    ancestors: int
    """A bit for each commit that can be reached, itself included."""


@dataclass(slots=True)
class World:
    random: Random
    stays_calm: bool
    tell: Callable[[str], None] | None
    """Receives a line per step; None if not needed, since formatting takes a fifth of the time."""
    commits: list[Commit] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    given_up: set[str] = field(default_factory=set)
    """Tokens that were replaced, deleted or rejected by a replica that had seen them."""
    refused: set[str] = field(default_factory=set)
    """Rejected names and summaries."""
    chosen: set[str] = field(default_factory=set)
    """Names and summaries chosen in a decision."""
    is_calm: bool = True
    """Nothing was moved, deleted or joined, so a decision about a node covers the whole node."""

    def token(self) -> str:
        made = f"t{len(self.written)};"
        self.written.add(made)
        return made

    def commit(self, id: int, graph: Graph, parents: list[int]) -> int:
        ancestors = 1 << len(self.commits)
        for parent in parents:
            ancestors |= self.at(parent).ancestors
        self.places[id] = len(self.commits)
        self.commits.append(Commit(id, graph, ancestors))
        return id

    def at(self, id: int) -> Commit:
        return self.commits[self.places[id]]

    def bases(self, a: int, b: int) -> list[int]:
        common, found = self.at(a).ancestors & self.at(b).ancestors, []
        while common:
            best = self.commits[common.bit_length() - 1]  # a commit comes after all it descends from
            found.append(best.id)
            common &= ~best.ancestors
        return sorted(found)

    def merge(self, a: int, b: int) -> int:
        """The tip of a replica at `a` that has fetched `b`."""
        bases = self.bases(a, b)
        if b in bases:
            return a
        if a in bases:
            return b
        id = hash((min(a, b), max(a, b)))
        if id in self.places:
            return id
        base = common_content(a, b, bases=self.bases, held=lambda c: self.at(c).graph, merge=merged)
        one = merged(base, self.at(a).graph, self.at(b).graph)
        if self.random.random() < 0.1 and merged(base, self.at(b).graph, self.at(a).graph) != one:
            raise Broken("the merge depends on which side is ours")
        return self.commit(id, one, [a, b])


def twins(uris: Iterable[Uri], met_before: Callable[[Uri, Uri], bool]) -> list[Conflict]:
    """A conflict for each pair of nodes whose names are equal on some file systems, unless `met_before` holds for the
    pair."""
    keys: dict[str, list[Uri]] = {}
    for uri in uris:
        keys.setdefault(collision_key(uri), []).append(uri)
    pairs = [(one, two) for group in keys.values() for one in group for two in group if one < two]
    return [twin(*pair) for pair in sorted(pairs) if not met_before(*pair)]


def merged(base: Graph | None, a: Graph, b: Graph) -> Graph:
    done = merge_graphs(base or Graph(), a, b).graph
    found = twins(done.nodes, lambda x, y: any(x in side.nodes and y in side.nodes for side in (a, b)))
    return Graph(done.nodes, {**done.conflicts, **{conflict.id: conflict for conflict in found}}) if found else done


def tokens(value: object) -> set[str]:
    return set(TOKEN.findall(canonical_json(value)))


def tokens_of(graph: Graph) -> set[str]:
    found: set[str] = set()
    for node in graph.nodes.values():
        found |= tokens(plain(node))
    for conflict in graph.conflicts.values():
        found |= tokens([[f.base, *f.sides] for f in conflict.fields.values()])
    return found


def key(conflict: Conflict) -> str:
    """The disagreement itself, independent of the node's current name."""
    return canonical_json([[name, f.base, f.sides, f.round] for name, f in conflict.fields.items()])


class Replica:
    def __init__(self, world: World, name: str, tip: int) -> None:
        self.world, self.name, self.tip = world, name, tip

    @property
    def graph(self) -> Graph:
        return self.world.at(self.tip).graph

    def act(self) -> None:
        """One change that a person or an agent makes, as one commit."""
        random, graph = self.world.random, self.graph
        records = sorted(graph.conflicts)
        if records and random.random() < 0.4:
            self.settle(graph.conflicts[random.choice(records)])
            return
        uri = random.choice(NAMES)
        node = graph.nodes.get(uri)
        if node is None:
            self.put(uri, Node(uri, name=self.world.token(), content=f"{self.world.token()}\n"))
            return
        calm = (self.edit,)
        act = random.choice(calm if self.world.stays_calm else (*calm, *calm, *calm, *calm, self.move, self.delete))
        act(node)

    def edit(self, node: Node) -> None:
        random, token = self.world.random, self.world.token()
        kind = random.randrange(10)
        if kind == 0:
            node = replace(node, name=token)
        elif kind == 1:
            node = replace(node, summary=token)
        elif kind == 2:
            node = replace(node, content=node.content + f"{token}\n")
        elif kind == 3:
            lines = node.content.split("\n")
            lines[random.randrange(len(lines))] = token
            node = replace(node, content="\n".join(lines))
        elif kind == 4:
            node = replace(node, tags=(*node.tags[1:], token))
        elif kind == 5:
            node = node.with_relation(Relation("uses", random.choice(NAMES), random.choice((0, 1)), {"why": token}))
        elif kind == 6:
            node = replace(node, relations=node.relations[1:], data={**node.data, "deep": {"key": token}})
        elif kind == 7:
            node = replace(node, others={**node.others, "license": {"name": token}})
        elif kind == 8 and node.relations:
            node = node.with_relation(replace(node.relations[0], others={"since": token}))
        else:
            node = replace(node, data={"observations": [*node.data.get("observations", []), token]})
        self.put(node.uri, node)

    def move(self, node: Node) -> None:
        free = [uri for uri in NAMES if uri not in self.graph.nodes]
        if free:
            to = self.world.random.choice(free)
            self.put(node.uri, renamed(node, to))

    def delete(self, node: Node) -> None:
        self.put(node.uri, None)

    def settle(self, conflict: Conflict) -> None:
        """Choose a side or the base, or delete the record by hand."""
        (name, disputed), random = next(iter(conflict.fields.items())), self.world.random
        uri = conflict.uri
        node = self.graph.nodes.get(uri)
        choice = random.randrange(len(disputed.sides) + 2)
        if choice == len(disputed.sides) or node is None:
            if node is not None and name in ("name", "summary"):
                self.decide(disputed, field_of(node, name))
            self.put(uri, node, without=(conflict,))
        elif name == TWIN:
            kept, other = (Uri(side) for side in (disputed.sides if choice else reversed(disputed.sides)))
            one, two = self.graph.nodes.get(kept), self.graph.nodes.get(other)
            if one and two:
                self.join(one, two, conflict)
            else:
                self.put(uri, node, without=(conflict,))
        else:
            value = disputed.sides[choice] if choice < len(disputed.sides) else disputed.base
            if name in ("name", "summary"):
                self.decide(disputed, value)
            taken = name == PLACE and value != uri and Uri(str(value)) in self.graph.nodes
            self.put(uri, node if taken else with_decision(node, uri, name, value), without=(conflict,))

    def decide(self, disputed: FieldConflict, value: object) -> None:
        self.world.chosen |= tokens(value)
        self.world.refused |= tokens(disputed.sides) - tokens(value)

    def join(self, kept: Node, other: Node, twin: Conflict) -> None:
        records = list(self.graph.conflicts.values())
        of_kept, of_other = (
            [c for c in records if c.uri == node.uri and all(map(is_of_node, c.fields))] for node in (kept, other)
        )
        joined = combined(Merged(kept, by_field(of_kept)), Merged(other, by_field(of_other)))
        self.put(other.uri, joined.node, without=(twin, *of_kept, *of_other), found=tuple(joined.records.values()))

    def put(
        self, uri: Uri, node: Node | None, *, without: tuple[Conflict, ...] = (), found: tuple[Conflict, ...] = ()
    ) -> None:
        """Apply a transaction: the node at `uri` becomes `node`, and its conflicts move with it."""
        old = self.graph
        self.world.is_calm &= node is not None and node.uri == uri
        nodes = {at: one for at, one in old.nodes.items() if at != uri}
        conflicts = {id: c for id, c in old.conflicts.items() if c not in without}
        if node is not None:
            nodes[node.uri] = node
        for id, conflict in list(conflicts.items()):
            if conflict.uri == uri:
                del conflicts[id]
                left = _as_edited(conflict, node) if node is not None else None
                if left is not None:
                    conflicts[left.id] = left
        for conflict in found:
            conflicts[conflict.id] = conflict
        new = Graph(nodes, conflicts)
        self.world.given_up |= tokens_of(old) - tokens_of(new)
        self.tip = self.world.commit(self.world.random.getrandbits(60), new, [self.tip])
        if self.world.tell:
            self.world.tell(f"{self.name}: {self.tip} {uri} -> {plain(node) if node else None} without {without}")

    def fetch(self, other: Replica) -> None:
        before, self.tip = self.tip, self.world.merge(self.tip, other.tip)
        if self.tip != before and self.world.tell:
            self.world.tell(f"{self.name}: merges {other.name} at {other.tip}: {self.tip} {shown(self.graph)}")


def shown(graph: Graph) -> str:
    return canonical_json([[plain(n) for n in graph.nodes.values()], [key(c) for c in graph.conflicts.values()]])


def run(seed: int, tell: Callable[[str], None] | None = None) -> None:
    """Play one schedule and check all laws at its end.

    Raises:
        Broken: A law does not hold; the message names the seed.
    """
    random = Random(seed)
    world = World(random, random.random() < 0.4, tell)
    root = world.commit(random.getrandbits(60), Graph(), [])
    replicas = [Replica(world, f"r{n}", root) for n in range(random.choice((2, 2, 3, 3, 4, 5)))]
    try:
        for _ in range(random.randrange(4, 14)):
            who = random.choice(replicas)
            if random.random() < 0.45:
                who.fetch(random.choice([one for one in replicas if one is not who]))
            else:
                who.act()
        quiesce(world, replicas)
        check(world, replicas[0].graph)
    except Exception as error:
        raise Broken(f"seed {seed}: {error!r}: `python -m tests.sim.planner {seed}` tells how") from error


def quiesce(world: World, replicas: list[Replica]) -> None:
    """Merge pairs in any order, without further writes, until all replicas have the same tip."""
    for _ in range(2 * len(replicas)):
        for one in world.random.sample(replicas, len(replicas)):
            one.fetch(world.random.choice([other for other in replicas if other is not one]))
    for one in replicas[1:]:
        replicas[0].fetch(one)
    for one in replicas[1:]:
        one.fetch(replicas[0])
    if len({one.tip for one in replicas}) != 1:
        raise Broken("replicas that saw the same commits have different tips")


def check(world: World, graph: Graph) -> None:
    there = tokens_of(graph)
    if lost := world.written - there - world.given_up:
        raise Broken(f"lost, and never given up by a replica that saw it: {sorted(lost)}")
    if invented := there - world.written:
        raise Broken(f"never written: {sorted(invented)}")
    for conflict in graph.conflicts.values():
        # A conflict resolved in two ways is open again; so is one of a node that was split by a move.
        first = [f.sides for name, f in conflict.fields.items() if name in ("name", "summary") and not f.round]
        again = tokens(first) & world.refused
        if world.is_calm and again - world.chosen:
            raise Broken(f"settled, and open again: {conflict}")
        for name, disputed in conflict.fields.items():
            at = graph.nodes.get(conflict.uri)
            if at and name not in (WHOLE, TWIN, PLACE) and field_of(at, name) != disputed.sides[conflict.shown[name]]:
                raise Broken(f"the shown value differs from {conflict}")
    for uri, node in graph.nodes.items():
        if node.uri != uri or uri in node.aliases:
            raise Broken(f"{uri} has the wrong name: {node}")


def _as_edited(conflict: Conflict, node: Node) -> Conflict | None:
    """The conflict after an edit or a move of the node: the current value replaces the shown value.

    None if the current value is the other side's value. The conflict has to be about one field.
    """
    ((name, disputed),) = conflict.fields.items()
    if name == TWIN or not (is_of_node(name) or name == PLACE):
        return conflict.at(node.uri)
    value = plain(node) if name == WHOLE else str(node.uri) if name == PLACE else field_of(node, name)
    now = held(name, value, {name: conflict})
    if len(now.values) == 1:
        return None
    left = disagreement(disputed.base, now.values.values(), disputed.round)
    return Conflict(node.uri, {name: left}, {name: [canonical_json(side) for side in left.sides].index(now.shown)})


def main() -> int:
    first, count = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    if not count:
        run(first, tell=print)
        return 0
    start, failed = time.perf_counter(), 0
    for seed in range(first, first + count):
        try:
            run(seed)
        except Broken as error:
            failed += 1
            print(error, "\n   ", error.__cause__)
            if failed == 5:
                break
    print(f"{count} schedules, {failed} failed, {count / (time.perf_counter() - start):,.0f} a second")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
