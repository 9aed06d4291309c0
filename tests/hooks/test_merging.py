"""Plain git merges node by node: the tree after a merge on the command line is the one that the daemon makes."""

from __future__ import annotations

import pytest

from tests.hooks.conftest import Person, daemons_tree


def test_two_edits_of_one_node_are_merged_by_field(ann: Person, bob: Person) -> None:
    bob.write("x", name="renamed", summary="one", content="first")
    bob.commit()
    bob.git("push", "-q")
    ann.write("x", name="x", summary="two", content="first")
    ours = ann.commit()
    ann.git("pull", "-q", "--no-edit")
    text = ann.file("x").read_text()
    assert "name: renamed" in text
    assert "summary: two" in text
    assert ann.tree_id() == daemons_tree(ann, ours, bob.head())
    assert ann.is_clean()


@pytest.mark.requirement("B8")
def test_a_deletion_against_an_edit_keeps_the_edit_and_records_the_deletion(ann: Person, bob: Person) -> None:
    bob.git("rm", "-q", "nodes/concept/y.yaml")
    bob.commit()
    bob.git("push", "-q")
    ann.write("y", name="y", summary="better", content="first")
    ours = ann.commit()
    done = ann.run("git", "pull", "--no-edit")
    assert done.returncode == 0
    assert "1 node was written differently" in done.stderr
    assert "concept://ws/y" in done.stderr
    assert "summary: better" in ann.file("y").read_text()
    assert list((ann.tree / "conflicts/concept/y").glob("*.yaml"))
    assert ann.tree_id() == daemons_tree(ann, ours, bob.head()) == daemons_tree(ann, bob.head(), ours)
    assert ann.is_clean()
