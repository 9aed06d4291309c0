"""Simulated teams: replicas, an upstream, people with plain git, and every kind of failure.

One seed is one schedule over real repositories. 2 to 5 desks edit, resolve, move, delete, pull and push over a network
that drops, repeats and delays messages, with clocks that jump and a crash between any two steps. Every text written is
a unique token, so that a loss shows.

    python -m tests.sim.teams SEED          prints the schedule step by step
    python -m tests.sim.teams FIRST COUNT   runs many
"""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from kgd.codec import documents, paths
from kgd.errors import KgdError
from kgd.git.objects import ObjectId
from kgd.git.remote_errors import Trouble
from kgd.git.store import ObjectStore
from kgd.model.change import Append, Delete, Edit, Move, Relate, Settle, Unrelate, Untag, Upsert
from kgd.model.conflict import PLACE, TWIN, Conflict, canonical_json
from kgd.model.node import Node, Relation
from kgd.model.uri import Uri
from kgd.sync import round as sync
from tests.sim.desks import SHARDED, Crash, Desk, Line, Person, Replica, Upstream, template

NAMES = [Uri(f"concept://ws/{name}") for name in ("a", "b", "c/d", "e")]
TOKEN = re.compile(rb"t\d+;")
CRASH, JUMP = 0.02, 0.05
ROUNDS = 2
"""Rounds within which the replicas must agree once failures stop."""


class Broken(AssertionError):
    """A promise to the users does not hold."""


@dataclass(slots=True)
class World:
    random: Random
    tell: Callable[[str], None]
    faults: bool = True
    now: int = 1_790_000_000
    count: int = 0
    attempted: set[bytes] = field(default_factory=set)
    acknowledged: set[bytes] = field(default_factory=set)
    given_up: set[bytes] = field(default_factory=set)
    """Tokens that were replaced, deleted or rejected by a desk that had seen them."""
    settled: dict[str, Uri] = field(default_factory=dict)
    """Resolved disagreements, and their nodes."""
    tips: list[ObjectId] = field(default_factory=list)
    """Every acknowledged tip."""
    seen: dict[ObjectId, frozenset[bytes]] = field(default_factory=dict)

    def token(self) -> str:
        self.count += 1
        made = f"t{self.count};"
        self.attempted.add(made.encode())
        return made

    def luck(self, chance: float) -> bool:
        return self.faults and self.random.random() < chance

    def step(self, where: str) -> None:
        if self.luck(CRASH):
            self.tell(f"    crash {where}")
            raise Crash(where)

    def clock(self) -> int:
        """Seconds by this desk's clock. Nothing may depend on their order."""
        self.now += self.random.randrange(1, 60)
        return self.now + (self.random.randrange(-(10**8), 10**8) if self.luck(JUMP) else 0)

    def tokens(self, store: ObjectStore, tree: ObjectId) -> frozenset[bytes]:
        found: set[bytes] = set()
        for file in store.files(tree):
            known = self.seen.get(file.id)
            if known is None:
                known = self.seen[file.id] = frozenset(TOKEN.findall(store.read(file.id)))
            found |= known
        return frozenset(found)


@contextlib.contextmanager
def working(world: World, desk: Desk) -> Iterator[None]:
    """One action at a desk; the desk has seen every text it replaces."""
    before, known = world.tokens(desk.store, desk.tree), set(world.attempted)
    try:
        yield
    except Crash:
        desk.start()
        world.given_up |= before - world.tokens(desk.store, desk.tree)
        return
    after = world.tokens(desk.store, desk.tree)
    world.given_up |= before - after
    world.acknowledged |= after & (world.attempted - known)
    world.tips.append(bytes.fromhex(desk.tip))


class Schedule:
    """One seed: its desks, and what happens at them."""

    def __init__(self, seed: int, place: Path, blank: Path, tell: Callable[[str], None]) -> None:
        self.random = Random(seed)
        self.world = World(self.random, tell)
        self.upstream = Upstream(self._copy(blank, place / "upstream"))
        names = [f"r{n}" for n in range(self.random.choice((2, 2, 2, 3, 3, 4)))]
        self.replicas = [
            Replica(self._copy(blank, place / name), name, self.world.step, self.world.clock) for name in names
        ]
        self.people = [
            Person(self._copy(blank, place / f"p{n}"), f"p{n}", self.world.step)
            for n in range(self.random.choice((0, 1, 1, 2)))
        ]

    def _copy(self, blank: Path, to: Path) -> Path:
        shutil.copytree(blank, to)
        return to

    def play(self) -> None:
        for _ in range(self.random.randrange(6, 18)):
            desk = self.random.choice([*self.replicas, *self.people])
            self.world.tell(f"{desk.name} at {desk.tip[:8]}")
            if isinstance(desk, Replica):
                self.meet(desk) if self.random.random() < 0.45 else self.change(desk)
            else:
                assert isinstance(desk, Person)
                self.by_hand(desk)
        self.quiesce()

    def meet(self, desk: Replica) -> None:
        """One round of sync. The next round repairs its failures."""
        world = self.world
        line = Line(self.upstream, desk, world.luck, world.step)
        try:
            done = sync.run(desk, desk.remote, line, chance=self.random, sleep=lambda seconds: None)
            world.tell(f"    met: {desk.tip[:8]} {[wait.kind for wait in done.waits]}")
        except Crash:
            desk.start()
        except Trouble as trouble:
            if trouble.kind not in ("cut", "race"):
                raise
            world.tell(f"    {trouble.kind}")

    def change(self, desk: Replica) -> None:
        records, before = conflicts(desk.store, desk.tree), desk.nodes()
        chosen = self.random.choice(records) if records and self.random.random() < 0.4 else None
        edits = self._settle(chosen) if chosen else self._edits(desk)
        with working(self.world, desk), contextlib.suppress(KgdError):
            desk.submit(*edits)
            self.world.settled |= {key(chosen): chosen.uri} if chosen else {}
            self._give_up_settled(before, records, desk)
            self.world.tell(f"    {edits} -> {desk.tip[:8]}")

    def _give_up_settled(self, before: Mapping[Uri, Node], records: list[Conflict], desk: Desk) -> None:
        """A desk that deletes a node gives up how its conflicts were resolved, except those that are open there: if
        another desk edited the node, it comes back with the records of that desk (rule 5.3 of docs/merge.md)."""
        gone, still_open = before.keys() - desk.nodes().keys(), {key(record) for record in records}
        settled = self.world.settled
        for one in [one for one, uri in settled.items() if uri in gone and one not in still_open]:
            del settled[one]

    def _edits(self, desk: Replica) -> list[Edit]:
        random, nodes = self.random, desk.nodes()
        uri = random.choice(NAMES)
        node = nodes.get(uri)
        if node is None:
            return [Upsert(uri, name=self.world.token(), content=f"{self.world.token()}\n")]
        return [
            self._edit(node, random.choice(NAMES), kind) for kind in random.sample(range(11), random.choice((1, 1, 2)))
        ]

    def _edit(self, node: Node, other: Uri, kind: int) -> Edit:
        uri, token = node.uri, self.world.token
        if kind == 0:
            return Upsert(uri, name=token())
        if kind == 1:
            return Upsert(uri, summary=token())
        if kind == 2:
            return Append(uri, token())
        if kind == 3:
            return Upsert(uri, data={"deep": {"key": token()}})
        if kind == 4 and node.tags:
            return Untag(uri, node.tags[:1])
        if kind == 5:
            return Relate(uri, Relation("uses", other, self.random.choice((0.0, 1.0)), {"why": token()}))
        if kind == 6 and node.relations:
            return Unrelate(uri, node.relations[0].target, node.relations[0].type)
        if kind == 7:
            return Move(uri, other) if self.random.random() < 0.5 else Delete(uri)
        if kind == 8:
            return Upsert(uri, others={"license": {"name": token()}})
        if kind == 9 and node.relations:
            return Upsert(uri, relations=(replace(node.relations[0], others={"since": token()}),))
        return Upsert(uri, tags=(token(),))

    def _settle(self, conflict: Conflict) -> list[Edit]:
        values = {}
        for name, disputed in conflict.fields.items():
            values[name] = self.random.choice([*disputed.sides, disputed.base] if name != TWIN else disputed.sides)
        return [Settle(conflict.id, values)]

    def by_hand(self, desk: Person) -> None:
        """Any of pull, edit a file, commit and push, in this order."""
        world, random = self.world, self.random
        try:
            if random.random() < 0.7:
                desk.pull(self.upstream, world.clock())
        except Crash:
            desk.start()
            return
        if random.random() < 0.7:
            files, before, records = self._handwork(desk), desk.nodes(), conflicts(desk.store, desk.tree)
            with working(world, desk):
                desk.commit(files, "edit by hand", world.clock())
                self._give_up_settled(before, records, desk)
                world.tell(f"    by hand {sorted(files)} -> {desk.tip[:8]}")
        with contextlib.suppress(Crash):
            if random.random() < 0.7:
                world.tell(f"    pushed: {desk.push(self.upstream)}")

    def _handwork(self, desk: Person) -> dict[str, bytes | None]:
        random, nodes = self.random, desk.nodes()
        uri = random.choice(NAMES)
        path, node = paths.path_of(uri, SHARDED), nodes.get(uri)
        if node is None:
            text = f"# new\nname: '{self.world.token()}'\nuri:   {uri}\ntags: [{self.world.token()}]\n"
            return {path: text.encode()}
        if random.random() < 0.15:
            return {path: None}
        old = desk.store.read(self._blob(desk, path))
        kind = random.randrange(3)
        if kind == 0:
            return {path: documents.rewrite(old, replace(node, summary=self.world.token()))}
        if kind == 1:
            return {path: documents.rewrite(old, replace(node, content=node.content + f"{self.world.token()}\n"))}
        return {path: f"# by hand: {random.randrange(9)}\n".encode() + old}

    def _blob(self, desk: Desk, path: str) -> ObjectId:
        found = desk.store.entry(desk.tree, path)
        assert found is not None
        return found

    # ---- the end

    def quiesce(self) -> None:
        """Without further writes and failures all desks must agree soon."""
        world = self.world
        world.faults = False
        for person in self.people:
            for _ in range(3):
                person.pull(self.upstream, world.clock())
                if person.push(self.upstream):
                    break
        for _ in range(ROUNDS):
            for replica in self.random.sample(self.replicas, len(self.replicas)):
                self.meet(replica)
        tips = {replica.tip for replica in self.replicas} | {self.upstream.tip.hex()}
        if len(tips) != 1:
            raise Broken(f"after {ROUNDS} rounds without faults there are {len(tips)} tips: {sorted(tips)}")
        self.check(self.replicas[0])

    def check(self, desk: Replica) -> None:
        world, store = self.world, desk.store
        there = world.tokens(store, desk.tree)
        if lost := world.acknowledged - there - world.given_up:
            raise Broken(f"acknowledged, lost, and never given up by a desk that saw it: {sorted(lost)}")
        if invented := there - world.attempted:
            raise Broken(f"never written: {sorted(invented)}")
        final = bytes.fromhex(desk.tip)
        for tip in world.tips:
            if not (store.exists(tip) and store.is_ancestor(tip, final)):
                raise Broken(f"the acknowledged tip {tip.hex()[:8]} is not in the history")
        for conflict in conflicts(store, desk.tree):
            if key(conflict) in world.settled and not {PLACE, TWIN} & set(conflict.fields):
                raise Broken(f"settled, and open again: {conflict}")
        for uri, node in desk.nodes().items():
            if paths.path_of(uri, SHARDED) != paths.path_of(node.uri, SHARDED):
                raise Broken(f"{uri} is not where it belongs")


def conflicts(store: ObjectStore, tree: ObjectId) -> list[Conflict]:
    return [
        documents.decode_conflict(store.read(file.id), at=file.path)
        for file in store.files(tree)
        if file.path.startswith("conflicts/")
    ]


def key(conflict: Conflict) -> str:
    """The disagreement itself, independent of the node's current name."""
    return canonical_json([[name, f.base, list(f.sides), f.round] for name, f in sorted(conflict.fields.items())])


@contextlib.contextmanager
def places() -> Iterator[Path]:
    """A folder in memory if the machine has one: a schedule makes some hundred small files."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="kgd-sim-", dir=memory if memory.is_dir() else None) as found:
        yield Path(found)


def run(seed: int, place: Path, blank: Path, tell: Callable[[str], None] = lambda line: None) -> str:
    """Play one schedule, check all promises at its end, and return the common tip.

    Raises:
        Broken: A promise does not hold; the message names the seed.
    """
    here = place / str(seed)
    try:
        schedule = Schedule(seed, here, blank, tell)
        schedule.play()
        return schedule.replicas[0].tip
    except Exception as error:
        raise Broken(f"seed {seed}: {error!r}: `python -m tests.sim.teams {seed}` tells how") from error
    finally:
        shutil.rmtree(here, ignore_errors=True)


def main() -> int:
    first, count = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with places() as place:
        blank = template(place)
        if not count:
            print(run(first, place, blank, tell=print))
            return 0
        start, failed = time.perf_counter(), 0
        for seed in range(first, first + count):
            try:
                run(seed, place, blank)
            except Broken as error:
                failed += 1
                print(error, "\n   ", repr(error.__cause__)[:600], flush=True)
                if failed == 5:
                    break
        print(f"{count} schedules, {failed} failed, {count / (time.perf_counter() - start):,.1f} a second")
        return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
