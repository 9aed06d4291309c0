"""The law of a push, on random histories: it is taken if and only if no new commit and no net change leaves the scope.

The independent checker does not use git: a commit is a dictionary of nodes, and a merge the changes slipped into it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kgd.codec.settings import Settings, first_files
from kgd.errors import Forbidden
from kgd.git.layout import Layout
from kgd.git.objects import ObjectId, Signature
from kgd.git.refs import RefUpdate, move_ref
from kgd.git.staging import Staging
from kgd.git.store import ObjectStore
from kgd.hooks.push_check import Pushed, check_push
from kgd.model.access import Principal, Scope, Verb
from kgd.workspace.merging.histories import merge_commits
from tests.builders import WS, new_layout
from tests.hooks.conftest import node_text

WHO = Signature("Ann", "ann@example.org", 1_700_000_000)
TEAMS = ("app", "infra", "web")
CASES = 30


@dataclass
class Made:
    """A commit, its nodes as the checker sees them, and what it did by itself."""

    id: ObjectId
    nodes: dict[str, str]
    did: set[str]
    parents: list[Made] = field(default_factory=list)

    def history(self) -> dict[ObjectId, Made]:
        found, waiting = {}, [self]
        while waiting:
            one = waiting.pop()
            if one.id not in found:
                found[one.id] = one
                waiting += one.parents
        return found


class Author:
    """Writes commits straight into a repository."""

    def __init__(self, layout: Layout, dice: random.Random) -> None:
        self.store, self.layout, self.dice, self.count = ObjectStore(layout.git_dir), layout, dice, 0

    def commit(self, parents: list[Made], files: dict[str, bytes | None], nodes: dict[str, str], did: set[str]) -> Made:
        staging = Staging(self.store, self.store.tree_of(parents[0].id) if parents else None)
        staging.write(files)
        self.count += 1
        made = staging.commit(staging.write_tree(), [one.id for one in parents], WHO, f"commit {self.count}")
        self.store.release(self.store.write(staging.objects))
        return Made(made, nodes, did, parents)

    def change(self, on: Made) -> Made:
        files, nodes = self.edits(on.nodes)
        return self.commit([on], files, nodes, {n for n in {*on.nodes, *nodes} if on.nodes.get(n) != nodes.get(n)})

    def merge(self, one: Made, two: Made) -> Made:
        """As kgd merges, and now and then with something slipped in."""
        files = dict(merge_commits(self.store, one.id, two.id, frozenset()).files)
        nodes = dict(one.nodes)
        for path, data in files.items():
            if path.startswith("nodes/concept/"):
                name = path.removeprefix("nodes/concept/").removesuffix(".yaml")
                nodes[name] = data.decode() if data is not None else ""
        honest = dict(nodes)
        if self.dice.random() < 0.3:
            slipped, nodes = self.edits(nodes)
            files.update(slipped)
        return self.commit([one, two], files, nodes, {n for n in {*honest, *nodes} if honest.get(n) != nodes.get(n)})

    def edits(self, nodes: dict[str, str]) -> tuple[dict[str, bytes | None], dict[str, str]]:
        name = f"{self.dice.choice(TEAMS)}/{self.dice.randrange(3)}"
        gone = bool(nodes.get(name)) and self.dice.random() < 0.2
        text = "" if gone else node_text(name, summary=f"v{self.dice.randrange(4)}")
        return {f"nodes/concept/{name}.yaml": text.encode() or None}, {**nodes, name: text}


def leaves(old: Made, tip: Made, scope: set[str]) -> bool:
    """The checker."""
    known = old.history()
    touched = {name for id, one in tip.history().items() if id not in known for name in one.did}
    touched |= {name for name in {*old.nodes, *tip.nodes} if old.nodes.get(name, "") != tip.nodes.get(name, "")}
    return any(name.partition("/")[0] not in scope for name in touched)


def of_changes(seed: int, place: Path) -> tuple[bool, bool]:
    """(whether the push was taken, whether it had to be)."""
    dice = random.Random(seed)
    author = Author(new_layout(place / str(seed)), dice)
    first = author.commit([], dict(first_files(WS)), {}, set())
    old = first
    for _ in range(3):
        old = author.change(old)
    others, mine = author.change(old), [old]
    move_ref(author.layout.git_dir, author.layout.derived_dir, "refs/heads/server", None, others.id)
    for _ in range(dice.randrange(1, 6)):
        on = dice.choice(mine)
        mine.append(author.merge(on, dice.choice([others, *mine])) if dice.random() < 0.4 else author.change(on))
    tip = author.merge(mine[-1], others)
    scope = set(dice.sample(TEAMS, dice.randrange(1, 3)))
    holder = Principal("t", "holder", "agent", (Scope.of(WS, [Verb.WRITE], [f"/{team}/**" for team in scope]),))
    update = RefUpdate("refs/heads/server", others.id, tip.id)
    try:
        check_push(Pushed(author.store, holder, Settings(WS), "refs/heads/server"), [update])
        taken = True
    except Forbidden:
        taken = False
    return taken, not leaves(others, tip, scope)


def agree(seeds: range, place: Path) -> None:
    answers = [of_changes(seed, place) for seed in seeds]
    assert [(seed, *answer) for seed, answer in zip(seeds, answers, strict=True) if answer[0] and not answer[1]] == []
    assert [(seed, *answer) for seed, answer in zip(seeds, answers, strict=True) if answer[1] and not answer[0]] == []
    assert {taken for taken, _ in answers} == {True, False}


@pytest.mark.slow
@pytest.mark.requirement("B5")
def test_a_push_is_taken_if_and_only_if_nothing_in_it_leaves_the_scope(tmp_path: Path) -> None:
    agree(range(CASES), tmp_path)
