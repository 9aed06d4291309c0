"""A commit whose node files could not be served is stopped before it is made, with file, line and what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kgd.codec.paths import shard
from tests.hooks.conftest import Person, node_text


def stopped(person: Person, *, because: str, at: str = "") -> None:
    before = person.head()
    person.git("add", "-A")
    done = person.run("git", "commit", "-m", "broken")
    assert done.returncode != 0, done.stderr
    assert because in done.stderr, done.stderr
    assert at in done.stderr, done.stderr
    assert "--no-verify" in done.stderr
    assert person.head() == before


BROKEN = {
    "nodes/concept/twice.yaml": (b"uri: concept://ws/twice\nname: one\nname: two\n", ":3: a key occurs twice"),
    "nodes/concept/marks.yaml": (
        b"uri: concept://ws/marks\n<<<<<<< ours\nname: a\n",
        ":2: the file contains unresolved conflict",
    ),
    "nodes/concept/no.yaml": (b"uri: concept://ws/no\nname: [\n", ":3: this is not YAML"),
    "nodes/concept/alias.yaml": (b"uri: concept://ws/alias\nname: &a one\nsummary: *a\n", ":2: YAML anchors"),
    "nodes/concept/taken.yaml": (b"uri: concept://ws/taken\nkgd_trust: one\n", "'kgd_trust' is reserved"),
    "nodes/concept/other.yaml": (b"uri: concept://ws/y\n", ":1: this file must contain the node concept://ws/other"),
    "nodes/concept/large.yaml": (b"uri: concept://ws/large\ncontent: " + b"x" * 300_000, ": a node has at most"),
    "nodes/concept/huge.yaml": (b"x" * (1 << 20) + b"y", "at most 1024 KiB; this one is 1025 KiB"),
    "nodes/concept/a:b.yaml": (b"uri: concept://ws/b\n", ""),
    "nodes/concept/secret.yaml": (
        b"uri: concept://ws/secret\nname: ghp_" + b"a1" * 20 + b"\n",
        "what looks like a secret",
    ),
    "nodes/concept/X.yaml": (b"uri: concept://ws/X\n", "differs only in letter case or normal form"),
    "kgd.yaml": (b"workspace: other\nformat: 1\n", "cannot be changed"),
    "log/concept/lost.yaml": (b"id: x\n", "a changelog entry needs"),
    "conflicts/concept/x/0.yaml": (b"uri: concept://ws/x\n", "at least one field"),
}


@pytest.mark.slow
@pytest.mark.requirement("B10")
def test_unservable_files_are_not_committed_and_each_is_named(ann: Person) -> None:
    for path, (data, _) in BROKEN.items():
        (ann.tree / path).parent.mkdir(parents=True, exist_ok=True)
        (ann.tree / path).write_bytes(data)
    before = ann.head()
    ann.git("add", "-A")
    done = ann.run("git", "commit", "-m", "broken")
    assert done.returncode != 0
    assert ann.head() == before
    lines = done.stderr.splitlines()
    for path, (_, said) in BROKEN.items():
        assert any(path in line and said in line for line in lines), (path, said, done.stderr)
    assert len(lines) == len(BROKEN) + 2
    assert "--no-verify" in lines[-1]


@pytest.mark.slow
def test_a_likely_mistake_in_a_key_is_reported_and_committed(ann: Person) -> None:
    ann.file("x").write_text("uri: concept://ws/x\nsumary: one\nlicense: MIT\n")
    with (ann.tree / "kgd.yaml").open("a") as file:
        file.write("polcy: []\n")
    part = ann.tree / f"bulk/message/{shard(b'talk')}/talk/1.yaml"
    part.parent.mkdir(parents=True)
    part.write_text("nodes:\n- uri: message://ws/talk/1\n- uri: message://ws/talk/2\n  sumary: two\n")
    ann.git("add", "-A")
    done = ann.run("git", "commit", "-m", "typo")
    said = "the key 'sumary' has no meaning; did you mean 'summary'?"
    assert done.returncode == 0, done.stderr
    assert sorted(line for line in done.stderr.splitlines() if line.startswith("kgd: ")) == [
        f"kgd: {part.relative_to(ann.tree)}: message://ws/talk/2: {said}",
        "kgd: kgd.yaml: the key 'polcy' has no meaning; did you mean 'policy'?",
        f"kgd: nodes/concept/x.yaml: {said}",
    ]


@pytest.mark.slow
def test_a_program_and_a_link_are_no_nodes(ann: Person) -> None:
    ann.file("x").chmod(0o755)
    stopped(ann, because="only plain files belong here", at="git update-index --chmod=-x")
    ann.git("reset", "-q", "--hard")
    os.symlink("x.yaml", ann.tree / "nodes/concept/link.yaml")
    stopped(ann, because="only plain files belong here", at="nodes/concept/link.yaml")


@pytest.mark.slow
def test_valid_and_unrelated_files_are_committed(ann: Person) -> None:
    ann.write("new/one", name="new", summary="of a person")
    (ann.tree / "README").write_bytes(b"\xff\xfe any file at the top\n<<<<<<< \n")
    ann.git("rm", "-q", "nodes/concept/y.yaml")
    ann.git("add", "-A")
    ann.git("commit", "-qm", "fine")
    assert ann.is_clean()


@pytest.mark.slow
def test_the_staged_content_counts_also_with_commit_all(ann: Person) -> None:
    ann.write("x", name="staged")
    ann.git("add", "-A")
    ann.file("x").write_text("name: one\nname: two\n")
    ann.git("commit", "-qm", "the staged one is sound")
    done = ann.run("git", "commit", "-am", "the file is not")
    assert done.returncode != 0
    assert "x.yaml:2: a key occurs twice" in done.stderr


@pytest.mark.slow
def test_broken_settings_can_be_mended(ann: Person) -> None:
    sound = (ann.tree / "kgd.yaml").read_bytes()
    (ann.tree / "kgd.yaml").write_text("workspace: [\n")
    ann.commit("past the hooks")
    (ann.tree / "kgd.yaml").write_bytes(sound)
    ann.git("commit", "-qam", "mended")


@pytest.mark.slow
def test_faults_from_the_other_side_of_a_merge_are_reported_and_do_not_stop_it(ann: Person, bob: Person) -> None:
    bob.file("x").write_text("uri: concept://ws/x\nname: one\nname: two\n")
    bob.commit()
    bob.git("push", "-q")
    ann.write("y", name="mine")
    ann.commit()
    done = ann.run("git", "pull", "--no-edit")
    assert done.returncode == 0, done.stderr
    assert "the other side of this merge has files that kgd cannot serve" in done.stderr
    assert "nodes/concept/x.yaml:3" in done.stderr


@pytest.mark.slow
def test_a_branch_without_a_workspace_is_left_alone(ann: Person) -> None:
    ann.git("switch", "-q", "--orphan", "pages")
    (ann.tree / "index.html").write_text("<p>")
    ann.git("add", "index.html")
    ann.git("commit", "-qm", "pages")


@pytest.mark.slow
def test_the_first_commit_of_a_new_workspace_is_checked(ann: Person, tmp_path: Path) -> None:
    new = Person(tmp_path / "new")
    new.tree.mkdir()
    new.git("init", "-q", "--template=")
    (new.git_dir / "hooks").mkdir()
    (new.git_dir / "hooks" / "pre-commit").write_bytes((ann.git_dir / "hooks" / "pre-commit").read_bytes())
    (new.git_dir / "hooks" / "pre-commit").chmod(0o755)
    (new.tree / "kgd.yaml").write_bytes((ann.tree / "kgd.yaml").read_bytes())
    new.file("x").parent.mkdir(parents=True)
    new.file("x").write_text(node_text("x", name="one") + "name: two\n")
    new.git("add", "-A")
    assert "x.yaml:3" in new.run("git", "commit", "-m", "first").stderr
