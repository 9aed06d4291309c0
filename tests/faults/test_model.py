"""Any order of changes, restarts and rebuilds: a workspace equals a dictionary, its graph equals a fresh load."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kgd.errors import InvariantViolation, NotFound, Stale
from kgd.model.change import Append, Delete, Edit, Move, Relate, Revert, Unrelate, Untag
from kgd.model.node import Node, Relation
from kgd.model.uri import Uri
from kgd.workspace.check import check
from kgd.workspace.workspace import Workspace
from tests.builders import change, new_layout, to, upsert, uri
from tests.faults.audit import counted_by_git, strays
from tests.git.support import fsck

NAMES = st.sampled_from([*"abcdef", "deep/a", "deep/b"])
WORDS = st.sampled_from(["lease", "clock", "anchor", "harbour"])
WEIGHTS = st.sampled_from([0.0, 0.25, 1.0])


class Model(RuleBasedStateMachine):
    """`nodes` and `changed` are the expected state; the workspace is compared with them after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="kgd-model-"))
        self.layout = new_layout(self.place / "knowledge")
        self.ws = Workspace.open(self.layout, publish=False)
        self.nodes: dict[Uri, Node] = {}
        self.changed: Counter[Uri] = Counter()
        self.past: list[tuple[str, dict[Uri, Node]]] = []

    def teardown(self) -> None:
        try:
            assert check(self.ws) == []
            self.ws.close()
            assert fsck(self.layout.git_dir) == []
            assert strays(self.layout.git_dir) == []
            counted = counted_by_git(self.layout.git_dir)
            assert {self.ws.path(one): count for one, count in self.changed.items()} == dict(counted)
        finally:
            shutil.rmtree(self.place, ignore_errors=True)

    # ---- the dictionary

    def resolved(self, name: str) -> Uri:
        """The node itself, else the one it was moved to: the first in order if several say so."""
        where = uri(name)
        claims = sorted(other for other, node in self.nodes.items() if where in node.aliases)
        return where if where in self.nodes or not claims else claims[0]

    def submit(self, edit: Edit, after: dict[Uri, Node]) -> None:
        before, tip = dict(self.nodes), self.ws.tip
        outcome = self.ws.submit(change(edit))
        differs = {one for one in before.keys() | after.keys() if before.get(one) != after.get(one)}
        assert (outcome.commit is not None) == bool(differs)
        if outcome.commit is None:
            assert self.ws.tip == tip
            return
        self.changed.update(differs)
        self.nodes = after
        self.past.append((outcome.commit, before))
        assert dict(outcome.nodes) == {one: self.changed[one] for one in differs if one in after}

    # ---- steps

    @initialize()
    def begin(self) -> None:
        self.submit(upsert("a", name="lease"), {uri("a"): Node(uri("a"), name="lease")})

    @rule(name=NAMES, word=WORDS, tag=WORDS, links=st.lists(st.tuples(NAMES, WEIGHTS), max_size=2))
    def put(self, name: str, word: str, tag: str, links: list[tuple[str, float]]) -> None:
        where = self.resolved(name)
        node = self.nodes.get(where, Node(where))
        node = replace(node, name=word, tags=(*node.tags, tag))
        for target, weight in links:
            node = node.with_relation(Relation("relates_to", uri(target), weight))
        edit = upsert(name, *(to(target, weight=weight) for target, weight in links), name=word, tags=(tag,))
        self.submit(edit, {**self.nodes, where: node})

    @rule(name=NAMES, word=WORDS)
    def append(self, name: str, word: str) -> None:
        where = self.resolved(name)
        node = self.nodes.get(where, Node(where))
        text = f"{node.content.rstrip()}\n\n{word}\n" if node.content else f"{word}\n"
        self.submit(Append(uri(name), word), {**self.nodes, where: replace(node, content=text)})

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        where = self.resolved(name)
        if where not in self.nodes:
            with pytest.raises(NotFound):
                self.ws.submit(change(Delete(uri(name))))
            return
        self.submit(Delete(uri(name)), {one: node for one, node in self.nodes.items() if one != where})

    @rule(name=NAMES, goal=NAMES, weight=WEIGHTS)
    def relate(self, name: str, goal: str, weight: float) -> None:
        where, relation = self.resolved(name), to(goal, "uses", weight)
        if where not in self.nodes:
            with pytest.raises(NotFound):
                self.ws.submit(change(Relate(uri(name), relation)))
            return
        self.submit(Relate(uri(name), relation), {**self.nodes, where: self.nodes[where].with_relation(relation)})

    @rule(name=NAMES, goal=NAMES)
    def unrelate(self, name: str, goal: str) -> None:
        where = self.resolved(name)
        if where in self.nodes:
            node = self.nodes[where]
            left = tuple(r for r in node.relations if r.key != ("uses", uri(goal)))
            after = {**self.nodes, where: replace(node, relations=left)}
            self.submit(Unrelate(uri(name), uri(goal), "uses"), after)

    @rule(name=NAMES, tag=WORDS)
    def untag(self, name: str, tag: str) -> None:
        where = self.resolved(name)
        if where in self.nodes:
            node = self.nodes[where]
            after = {**self.nodes, where: replace(node, tags=tuple(t for t in node.tags if t != tag))}
            self.submit(Untag(uri(name), (tag,)), after)

    @rule(name=NAMES, goal=NAMES)
    def move(self, name: str, goal: str) -> None:
        where, new = self.resolved(name), uri(goal)
        if where not in self.nodes:
            return
        if new in self.nodes and new != where:
            with pytest.raises(InvariantViolation):
                self.ws.submit(change(Move(uri(name), new)))
            return
        if new == where:
            self.submit(Move(uri(name), new), self.nodes)
            return
        node = self.nodes[where]
        aliases = tuple(alias for alias in (*node.aliases, where) if alias != new)
        after = {one: other for one, other in self.nodes.items() if one != where}
        self.submit(Move(uri(name), new), {**after, new: replace(node, uri=new, aliases=aliases)})

    @rule(name=NAMES, word=WORDS, off=st.integers(-1, 1))
    def expect(self, name: str, word: str, off: int) -> None:
        where = self.resolved(name)
        version = self.changed[where] if where in self.nodes else 0
        edit = upsert(name, summary=word, expect_version=max(0, version + off))
        if edit.expect_version != version:
            with pytest.raises(Stale) as caught:
                self.ws.submit(change(edit))
            assert caught.value.current == version
            return
        self.submit(edit, {**self.nodes, where: replace(self.nodes.get(where, Node(where)), summary=word)})

    @precondition(lambda self: self.past)
    @rule()
    def revert_the_newest(self) -> None:
        commit, before = self.past.pop()
        self.submit(Revert(commit), before)
        self.past.clear()

    @rule(whole=st.booleans())
    def restart(self, whole: bool) -> None:
        self.ws.close()
        if whole:
            shutil.rmtree(self.layout.derived_dir)
        self.ws = Workspace.open(self.layout, publish=False)

    @rule()
    def reindex(self) -> None:
        self.ws.reindex()

    # ---- invariants

    @invariant()
    def nodes_and_versions(self) -> None:
        assert set(self.ws.graph.uris()) == set(self.nodes)
        for one, node in self.nodes.items():
            assert self.ws.node(one) == node
            version = self.ws.node_version(one)
            assert version is not None
            assert version.count == self.changed[one]

    @invariant()
    def broken_links(self) -> None:
        known = {alias for node in self.nodes.values() for alias in node.aliases} | set(self.nodes)
        wanted = {
            (one, r.type, r.target) for one, node in self.nodes.items() for r in node.relations if r.target not in known
        }
        assert {(link.source, link.type, link.target) for link in self.ws.broken_links()} == wanted

    @invariant()
    def every_named_node_is_found(self) -> None:
        for word in {node.name for node in self.nodes.values() if node.name}:
            found = {hit.uri for hit in self.ws.text().search(word, limit=50)}
            assert {one for one, node in self.nodes.items() if node.name == word} <= found


TestModel = pytest.mark.requirement("B2")(Model.TestCase)
TestModel.settings = settings(max_examples=150 if os.environ.get("KGD_SOAK") else 6, stateful_step_count=25)
