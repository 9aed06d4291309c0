"""The areas in memory equal the files after any changes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.areas.atlas import Atlas
from kgd.model.change import Delete, Edit, Move, Upsert
from kgd.model.uri import Uri, parse
from kgd.workspace.workspace import Workspace
from tests.builders import change, new_layout

NAMES = "abcdef"
PATTERNS = ["src/**", "src/a.py", "*.md", "lib/*/x", "docs/", "", "/bad"]
PATHS = ["src/a.py", "src/deep/b.py", "README.md", "lib/one/x", "docs/index.md", "elsewhere"]


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace.open(new_layout(tmp_path / "knowledge"), publish=False)
    yield workspace
    workspace.close()


def area(kind: str, name: str) -> Uri:
    return parse(f"{kind}://ws/{name}")


def edit(dice: random.Random, ws: Workspace) -> Edit:
    kind, name = dice.choice(["atom", "atom", "molecule"]), dice.choice(NAMES)
    uri = area(kind, name)
    there = uri in ws.graph
    what = dice.random()
    if there and what < 0.2:
        return Delete(uri)
    if there and what < 0.35 and area(kind, f"{name}-moved") not in ws.graph:
        return Move(uri, area(kind, f"{name}-moved"))
    data = {
        "paths": dice.choice([dice.sample(PATTERNS, 2), "no list", None]),
        "moleculeId": dice.choice([area("molecule", dice.choice([*NAMES, "a-moved"])), None]),
    }
    return Upsert(uri, name=dice.choice(["One", "Two", name]), data=data if kind == "atom" else {})


def everything(atlas: Atlas) -> object:
    found = atlas.matching(PATHS)
    return (
        atlas.atoms(),
        atlas.molecules(),
        list(found.by_atom.items()),
        found.unmatched,
        [(one.uri, atlas.atoms_of(one.uri)) for one in atlas.molecules()],
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_the_atlas_follows_every_change_as_if_it_were_made_anew(ws: Workspace, seed: int) -> None:
    dice, followed = random.Random(seed), Atlas.of(ws)
    for step in range(40):
        ws.submit(change(edit(dice, ws)))
        if step % 3 == 0:  # often several changes lie between two questions
            assert everything(followed) == everything(Atlas(ws)), step
    assert Atlas.of(ws) is followed
    assert everything(followed) == everything(Atlas(ws))


def test_an_atom_belongs_to_a_molecule_that_is_there_under_its_present_name(ws: Workspace) -> None:
    atom, domain, moved = area("atom", "x"), area("molecule", "old"), area("molecule", "new")
    ws.submit(change(Upsert(atom, name="X", data={"moleculeId": domain, "paths": ["src/**"]})))
    atlas = Atlas.of(ws)
    assert [one.molecule for one in atlas.atoms()] == [None]
    ws.submit(change(Upsert(domain, name="Domain")))
    assert atlas.atoms_of(domain) == atlas.atoms()
    ws.submit(change(Move(domain, moved)))
    assert [one.molecule for one in atlas.atoms()] == [moved]
    assert (atlas.atoms_of(moved), atlas.atoms_of(domain)) == (atlas.atoms(), [])
    ws.submit(change(Delete(moved)))
    assert [one.molecule for one in atlas.atoms()] == [None]


@pytest.mark.requirement("A6")
def test_matches_are_in_the_order_of_names_and_paths_in_the_order_of_asking(ws: Workspace) -> None:
    for name, title in (("1", "Zebra"), ("2", "Ant"), ("3", "Ant")):
        ws.submit(change(Upsert(area("atom", name), name=title, data={"paths": ["src/**"]})))
    found = Atlas.of(ws).matching(["src/z.py", "no.md", "src/a.py", "src/z.py", "a.md"])
    assert list(found.by_atom.items()) == [(area("atom", name), ["src/z.py", "src/a.py"]) for name in ("2", "3", "1")]
    assert found.unmatched == ["no.md", "a.md"]
    seen = Atlas.of(ws).matching(["src/z.py", "src/a.py"], sees=lambda uri: False)
    assert (seen.by_atom, seen.unmatched) == ({}, ["src/z.py", "src/a.py"])
