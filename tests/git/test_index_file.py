"""A rewritten copy of git's index holds kgd's replacements and everything that git added in between."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kgd.git import index_file
from kgd.git.index_file import Replacement, Rewriter
from kgd.git.objects import object_id


class Clone:
    """A repository whose index is rewritten as by publications."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.index, self.target = folder, folder / ".git/index", folder / "index.new"
        self.git("init", "-q")
        index_file.build(self.index, ())
        self.rewriter = Rewriter(self.index, self.target)

    def git(self, *words: str) -> str:
        return subprocess.run(["git", *words], cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def rewrite(self, name: str) -> None:
        replacement = Replacement(name, frozenset({None}), object_id("blob", name.encode()), b"100644")
        assert self.rewriter.rewrite([replacement]) == []

    def publish(self, name: str) -> None:
        self.rewrite(name)
        os.rename(self.target, self.index)

    def names(self) -> list[str]:
        return self.git("ls-files").split()


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_each_publication_adds_to_the_earlier_index(clone: Clone) -> None:
    for name in "abc":
        clone.publish(name)
    assert clone.names() == ["a", "b", "c"]


def test_files_that_git_added_between_two_publications_stay(clone: Clone) -> None:
    clone.publish("a")
    (clone.folder / "by-hand").write_text("x")
    clone.git("add", "by-hand")
    clone.publish("b")
    assert clone.names() == ["a", "b", "by-hand"]


def test_a_rewrite_that_was_not_published_leaves_nothing_behind(clone: Clone) -> None:
    clone.publish("a")
    clone.rewrite("abandoned")
    clone.target.unlink()
    clone.publish("b")
    assert clone.names() == ["a", "b"]
