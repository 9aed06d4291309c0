from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kgd.errors import InvariantViolation, NotFound, Refused
from kgd.git import creation, layout, refs
from kgd.git.creation import Adopted, adopt
from kgd.git.layout import Layout
from kgd.git.objects import FOLDER, make, tree_body
from tests.git.support import ANN, FIRST_FILES, Pen, fsck, git


def person() -> dict[str, str]:
    return dict(os.environ)


@pytest.fixture
def remote(code: Path) -> Path:
    bare = code.parent / "origin.git"
    git(code.parent, "clone", "-q", "--bare", str(code), str(bare))
    git(code, "remote", "add", "origin", str(bare))
    return bare


@pytest.fixture
def shared(pen: Pen, remote: Path) -> Pen:
    """A colleague's workspace, on the code's own remote."""
    pen.write({"nodes/concept/a.yaml": b"a\n"})
    pen.write({"nodes/concept/deep/b.yaml": b"b\n"})
    git(pen.layout.git_dir, "push", "-q", str(remote), "refs/kgd/head:refs/heads/kgd")
    return pen


def clone(remote: Path, name: str = "clone") -> Path:
    git(remote.parent, "clone", "-q", str(remote), name)
    return remote.parent / name


@pytest.mark.requirement("B8")
def test_a_clone_adopts_the_workspace_of_the_codes_remote(shared: Pen, remote: Path) -> None:
    tree = clone(remote)
    before = git(tree, "for-each-ref")
    found = adopt(tree, environment=person())
    assert found == Adopted(layout.locate(tree), "origin", "refs/heads/kgd")
    assert found.layout is not None
    assert refs.read_ref(found.layout.git_dir, refs.HEAD) == shared.head
    assert refs.read_ref(found.layout.git_dir, found.layout.branch) == shared.head
    assert refs.list_refs(found.layout.git_dir).keys() == {refs.HEAD, found.layout.branch}
    assert (tree / ".kgd/nodes/concept/deep/b.yaml").read_bytes() == b"b\n"
    assert git(tree, "status", "--porcelain") == git(tree / ".kgd", "status", "--porcelain") == ""
    assert git(tree, "for-each-ref") == before
    assert not (tree / ".git/FETCH_HEAD").exists()
    assert fsck(found.layout.git_dir) == []
    tip = Pen(found.layout).write({"nodes/concept/a.yaml": b"mine\n"})
    assert refs.read_ref(found.layout.git_dir, refs.HEAD) == tip
    assert adopt(tree, environment=person()).layout == found.layout


def test_a_ref_outside_of_the_branches_is_found_too(shared: Pen, remote: Path) -> None:
    git(remote, "update-ref", "refs/kgd/main", "refs/heads/kgd")
    git(remote, "update-ref", "-d", "refs/heads/kgd")
    found = adopt(clone(remote), environment=person())
    assert (found.ref, found.layout is not None) == ("refs/kgd/main", True)


def test_without_a_workspace_there_nothing_changes(code: Path, remote: Path) -> None:
    tree = clone(remote)
    assert adopt(tree, environment=person()) == Adopted()
    assert not (tree / ".git/kgd").exists()
    assert list((tree / ".git").glob("kgd*")) == []


def test_being_offline_is_no_failure_and_earlier_fetches_serve(shared: Pen, remote: Path) -> None:
    tree, fresh = clone(remote), clone(remote, "fresh")
    git(fresh, "update-ref", "-d", "refs/remotes/origin/kgd")
    remote.rename(remote.with_name("gone.git"))
    found = adopt(tree, environment=person())
    assert found.layout is not None
    assert found.unreachable.startswith("origin: ")
    assert refs.read_ref(found.layout.git_dir, refs.HEAD) == shared.head
    nothing = adopt(fresh, environment=person())
    assert nothing.layout is None
    assert nothing.unreachable


def test_a_remote_that_never_answers_costs_the_deadline_and_no_more(code: Path, tmp_path: Path) -> None:
    pit = tmp_path / "ssh"
    pit.write_text("#!/bin/sh\nexec sleep 600\n")
    pit.chmod(0o755)
    git(code, "remote", "add", "origin", "ssh://nobody@localhost/x.git")
    started = time.monotonic()
    found = adopt(code, environment={**person(), "GIT_SSH": str(pit)}, deadline=0.5)
    assert found.layout is None
    assert "within" in found.unreachable
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("kind", ["link", "submodule", "executable", "large", "no settings"])
def test_a_repository_without_a_workspace_is_refused_and_not_kept(shared: Pen, remote: Path, kind: str) -> None:
    """A remote's tree is looked at before any ref leads to it, and never checked out by git (F11)."""
    pen = shared
    blob = make("blob", b"/etc/passwd" if kind == "link" else bytes(2 << 20) if kind == "large" else b"x")
    mode = {"link": b"120000", "submodule": b"160000", "executable": b"100755"}.get(kind, b"100644")
    id = pen.head if kind == "submodule" else blob.id
    inner = make("tree", tree_body({b"evil.yaml": (mode, id)}))
    entries = {**pen.store.tree(pen.staging.tree), b"nodes": (FOLDER, inner.id)}
    if kind == "no settings":
        del entries[b"kgd.yaml"]
    outer = make("tree", tree_body(entries))
    tip = pen.staging.commit(outer.id, [pen.head], ANN, "evil")
    pen.store.release(pen.store.write([blob, inner, outer, *pen.staging.objects]))
    git(pen.layout.git_dir, "push", "-q", str(remote), f"{tip.hex()}:refs/heads/kgd")
    tree = clone(remote)
    with pytest.raises(Refused):
        adopt(tree, environment=person())
    assert layout.locate(tree) is None
    assert list((tree / ".git").glob("kgd*")) == []
    assert not (tree / ".kgd").exists()


def test_a_users_file_in_the_way_is_named(shared: Pen, remote: Path) -> None:
    tree = clone(remote)
    (tree / ".kgd").write_text("mine")
    with pytest.raises(InvariantViolation):
        adopt(tree, environment=person())
    assert (tree / ".kgd").read_text() == "mine"


def test_outside_of_a_repository_the_next_step_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        adopt(tmp_path, environment=person())


def test_a_first_commit_made_apart_is_the_base_of_both(workspace: Layout, remote: Path) -> None:
    """Two people who both ran `kgd up` offline can merge later: their roots are one commit."""
    other = creation.create_in_code_repository(clone(remote), "demo", FIRST_FILES)
    mine, theirs = Pen(workspace), Pen(other)
    a, b = mine.write({"nodes/a.yaml": b"a\n"}), theirs.write({"nodes/b.yaml": b"b\n"})
    git(workspace.git_dir, "fetch", "-q", str(other.git_dir), "refs/kgd/head:refs/kgd/theirs")
    assert len(workspace.open().merge_bases(a, b)) == 1
