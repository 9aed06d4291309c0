"""The commits of one node, found with the help of its version, are those of a walk from the tip."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kgd.git.history import log
from kgd.git.layout import Layout
from kgd.git.objects import Signature
from kgd.git.refs import HEAD
from kgd.workspace.workspace import Workspace
from tests.builders import new_layout, uri
from tests.git.support import Pen, git

NAMES = ("a", "b", "c", "d")


@pytest.mark.parametrize("seed", range(6))
def test_a_node_has_the_commits_of_a_walk_from_the_tip(tmp_path: Path, seed: int) -> None:
    """In the same order, unless clocks run backwards; in pages as well."""
    layout, is_skewed = new_layout(tmp_path / "knowledge"), seed % 2 == 1
    random_history(layout, random.Random(seed), is_skewed)
    ws = Workspace.open(layout, publish=False)
    try:
        for name in NAMES:
            assert ws.node_version(uri(name)), "versions are counted"
            found = [entry.commit for entry in ws.history.entries(uri=uri(name), limit=100)]
            expected = walked(ws, layout, name)
            assert sorted(found) == sorted(expected)
            assert found == expected or is_skewed
            assert pages(ws, name) == found
            by_bob = [entry.commit for entry in ws.history.entries(uri=uri(name), limit=100, author="Bob")]
            assert by_bob == walked(ws, layout, name, author="Bob")
        assert ws.history.entries(uri=uri("nothing")) == ()
    finally:
        ws.close()


def walked(ws: Workspace, layout: Layout, name: str, author: str | None = None) -> list[str]:
    tip = bytes.fromhex(ws.tip)
    return [one.commit.id.hex() for one in log(layout.open(), tip, paths=[file(name)], author=author, limit=100)]


def pages(ws: Workspace, name: str) -> list[str]:
    found = list[str]()
    while page := ws.history.entries(uri=uri(name), limit=3, after=found[-1] if found else None):
        found += (entry.commit for entry in page)
    return found


def random_history(layout: Layout, chance: random.Random, is_skewed: bool) -> None:
    """Branches and merges in which several nodes change."""
    pen = Pen(layout)
    tips = [pen.write({file(name): node(name, 0) for name in NAMES})]
    for number in range(60):
        parents = chance.sample(tips, min(len(tips), chance.choice([1, 1, 2])))
        pen.staging.reset(pen.store.tree_of(parents[0]))
        for name in chance.sample(NAMES, chance.randrange(3)):
            pen.staging.put(file(name), node(name, chance.randrange(3)))
        who, when = chance.choice(("Ann", "Bob")), chance.randrange(10**9) if is_skewed else 10**9 + number
        by = Signature(who, f"{who.lower()}@example.org", when)
        new = pen.staging.commit(pen.staging.write_tree(), parents, by, f"{number}")
        pen.store.release(pen.store.write(pen.staging.objects))
        tips = [*[tip for tip in tips if tip not in parents or chance.random() < 0.3][-4:], new]
    git(layout.git_dir, "update-ref", HEAD, tips[-1].hex())


def file(name: str) -> str:
    return f"nodes/concept/{name}.yaml"


def node(name: str, number: int) -> bytes:
    return b"type: concept\nname: %s %d\n" % (name.encode(), number)
