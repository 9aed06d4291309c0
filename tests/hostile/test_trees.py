"""Commits on the workspace's branch that git itself would not make, or that a person made by accident.

Each is either accepted with its invalid files named, or refused with the reason and the way back. Meanwhile everything
else is read and written, also after a restart.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.daemon.conftest import end_daemon
from tests.hostile.target import Target, git
from tests.hostile.trees import FILE, FOLDER, LINK, PROGRAM, SUBMODULE, Entry, Smith
from tests.waiting import until

pytestmark = pytest.mark.slow

AT = "nodes/concept/"
NOWHERE = b"\x11" * 20


class Named(NamedTuple):
    """A tree that is accepted; `path` is named as unreadable with `reason`."""

    name: str
    path: bytes
    entry: Callable[[Smith], tuple[bytes, bytes]]
    reason: str


class Refused(NamedTuple):
    """A refused tree; the status shows `reason` and the command that ends it."""

    name: str
    tree: Callable[[Smith, str], bytes]
    reason: str


def file(text: str) -> Callable[[Smith], tuple[bytes, bytes]]:
    return lambda smith: (FILE, smith.blob(text.encode()))


NAMED = [
    Named("a link", b"nodes/concept/bad1.yaml", lambda s: (LINK, s.blob(b"/etc/passwd")), "symbolic link"),
    Named(
        "a link whose text is a node",
        b"nodes/concept/bad2.yaml",
        lambda s: (LINK, s.blob(b"uri: concept://shop/bad\n")),
        "symbolic link",
    ),
    Named("a link for a folder", b"nodes/entity", lambda s: (LINK, s.blob(b"/etc")), "symbolic link"),
    Named("a submodule", b"nodes/concept/bad3.yaml", lambda s: (SUBMODULE, NOWHERE), "submodule"),
    Named("a submodule for a folder", b"nodes/concept/bad4", lambda s: (SUBMODULE, NOWHERE), "submodule"),
    Named("a line end in a name", b"nodes/concept/a\nb.yaml", file("uri: concept://shop/good\n"), "belongs"),
    Named("a name that is no UTF-8", b"nodes/concept/a\xff.yaml", file("uri: concept://shop/good\n"), "belongs"),
    Named("a backslash in a name", b"nodes/concept/..\\b.yaml", file("uri: concept://shop/good\n"), "belongs"),
    Named("a reserved name", b"nodes/concept/con.yaml", file("uri: concept://shop/good\n"), "belongs"),
    Named("a name that hides", b"nodes/concept/.hidden.yaml", file("uri: concept://shop/good\n"), "belongs"),
    Named("a key given twice", b"nodes/concept/bad5.yaml", file("uri: concept://shop/x\nname: a\nname: b\n"), "twice"),
    Named(
        "conflict markers",
        b"nodes/concept/bad6.yaml",
        file("<<<<<<< HEAD\nuri: concept://shop/bad\n=======\nname: b\n>>>>>>> x\n"),
        "markers",
    ),
    Named(
        "another node's name",
        b"nodes/concept/bad7.yaml",
        file("uri: concept://shop/good\nsummary: hijacked\n"),
        "belongs",
    ),
    Named(
        "a node among the conflicts",
        b"conflicts/concept/good/0123456789abcdef.yaml",
        file("uri: concept://shop/good\nsummary: hijacked\n"),
        "conflict record",
    ),
    Named("300 MB of zeros", b"nodes/concept/bad8.yaml", lambda s: (FILE, s.zeros(300 << 20)), "bytes|MiB"),
    Named("a blob that is missing", b"nodes/concept/bad9.yaml", lambda s: (FILE, NOWHERE), "missing"),
]


CASES = [NAMED[1:2], *(pytest.param(cases, marks=pytest.mark.slow) for cases in (NAMED[-1:], NAMED[:-1]))]


def grafted(path: bytes, entry: Callable[[Smith], tuple[bytes, bytes]] | None) -> Callable[[Smith, str], bytes]:
    return lambda smith, base: smith.grafted(base, path, entry(smith) if entry else None)


REFUSED = [
    Refused("a git bomb", lambda s, b: s.grafted(b, b"nodes/concept/bomb", (FOLDER, s.bomb())), "too often"),
    Refused("a git bomb beside the nodes", lambda s, b: s.grafted(b, b"docs", (FOLDER, s.bomb())), "too often"),
    Refused(
        "a folder of a million times the same",
        lambda s, b: s.grafted(
            b, b"nodes/concept/wide", (FOLDER, s.tree(Entry(b"%06d" % n, FILE, s.blob(b"x")) for n in range(100_000)))
        ),
        "too often",
    ),
    Refused("100 folders deep", grafted(b"/".join([b"nodes", *[b"d"] * 100, b"x.yaml"]), file("x")), "deeper"),
    Refused("a repository inside", grafted(b"nodes/concept/.git/config", file("[core]\n")), "name git does not allow"),
    Refused(
        "a repository in capitals", grafted(b".GIT/hooks/post-checkout", file("touch x\n")), "name git does not allow"
    ),
    Refused("a way out", grafted(b"nodes/../../escaped.yaml", file("x")), "name git does not allow"),
    Refused(
        "a way out in one name",
        lambda s, b: s.tree([*s.read(b), Entry(b"nodes/../../escaped", FILE, s.blob(b"x"))]),
        "name git does not allow",
    ),
    Refused("an entry without a name", lambda s, b: s.tree([*s.read(b), Entry(b"", FILE, s.blob(b"x"))]), "malformed"),
    Refused("a cut tree", grafted(b"nodes/bad", lambda s: (FOLDER, s.write("tree", b"100644 no"))), "malformed"),
    Refused("a blob for a folder", grafted(b"nodes/bad", lambda s: (FOLDER, s.blob(b"x"))), "expected a tree"),
    Refused("a folder that is missing", grafted(b"nodes/bad", lambda s: (FOLDER, NOWHERE)), "missing"),
    Refused("no settings", grafted(b"kgd.yaml", None), "lacks this plain file"),
    Refused("broken settings", grafted(b"kgd.yaml", file("[[[")), "kgd.yaml"),
    Refused(
        "settings of another workspace",
        grafted(b"kgd.yaml", file("workspace: evil\nformat: 1\nmerge_rules: 1\n")),
        "cannot be changed",
    ),
    Refused("settings of 300 MB", grafted(b"kgd.yaml", lambda s: (FILE, s.zeros(300 << 20))), "the limit is"),
    Refused("settings that are a link", grafted(b"kgd.yaml", lambda s: (LINK, s.blob(b"/etc/passwd"))), "plain file"),
    Refused("a newer format", grafted(b"kgd.yaml", file("workspace: shop\nformat: 2\nmerge_rules: 1\n")), "format 2"),
    Refused("newer rules", grafted(b"kgd.yaml", file("workspace: shop\nformat: 1\nmerge_rules: 2\n")), "version 2"),
    Refused("a file for the nodes", lambda s, b: s.grafted(b, b"nodes", (FILE, s.blob(b"x"))), "must be a folder"),
    Refused("a link for the nodes", lambda s, b: s.grafted(b, b"nodes", (LINK, s.blob(b"/etc"))), "must be a folder"),
    Refused("a file for the conflicts", grafted(b"conflicts", file("x")), "must be a folder"),
    Refused("nothing at all", lambda s, b: s.tree([]), "lacks this plain file"),
]

NEWER = {"format 2", "version 2"}
"""The commit is valid, and the status suggests a newer kgd."""

FEW = {"a git bomb"}
"""The trees of the quick tests; `make test-all` tries them all."""


def chosen(cases: list[Refused]) -> list[object]:
    return [pytest.param(case, id=case.name, marks=() if case.name in FEW else pytest.mark.slow) for case in cases]


def base(target: Target) -> str:
    return f"{target.branch}:"


def printable(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")


def checked_out(target: Target) -> None:
    """Check out the branch as `git pull` does, as far as git agrees to write its files.

    Retried while kgd holds the lock: otherwise git leaves files missing, which looks like a person removing them.
    """

    def locked() -> bool:
        words: list[str | Path] = ["git", "-C", target.work_tree, "reset", "-q", "--hard"]
        return b"index.lock" in subprocess.run(words, capture_output=True, check=False).stderr

    until(lambda: not locked())


def blocked(target: Target, reason: str) -> None:
    until(lambda: re.search(reason, target.blocker()), say=target.status)


@contextlib.contextmanager
def undone_on_failure(target: Target) -> Iterator[None]:
    """Drop the commits of a failed attack, so that it does not fail all later attacks."""
    try:
        yield
    except BaseException:
        git(target.git_dir, "update-ref", target.branch, "refs/kgd/head")
        checked_out(target)
        raise


def unharmed(target: Target) -> None:
    """Nothing was run, nothing was written outside, and ordinary use works."""
    assert not (Path(os.environ["HOME"]) / "ran").exists()
    assert not list(target.code.glob("escaped*"))
    assert not list(target.code.parent.glob("escaped*"))
    target.answers()


@pytest.mark.requirement("E2")
@pytest.mark.parametrize("cases", CASES, ids=["one", "a tree that git cannot check out", "all others"])
def test_invalid_files_are_named_and_everything_else_is_served(target: Target, cases: list[Named]) -> None:
    smith = Smith(target.git_dir)
    until(target.in_step, say=target.status)
    with target.memory():
        wanted = {printable(case.path) for case in cases}
        for _ in range(4):  # git writes the files one by one, and kgd may take a missing one for a deletion
            with contextlib.suppress(AssertionError):  # also a branch that kgd moved just now
                for case in (case for case in cases if printable(case.path) not in target.invalid()):
                    smith.commit(smith.grafted(base(target), case.path, case.entry(smith)), target.branch, case.name)
                checked_out(target)
                until(lambda: wanted <= target.invalid().keys())
                break
        until(lambda: wanted <= target.invalid().keys(), say=target.status)
        for case in cases:
            assert re.search(case.reason, target.invalid()[printable(case.path)]), case.name
        unharmed(target)
        target.put(f"concept://shop/beside-{len(cases)}", summary="x")
        until(target.in_step, say=target.status)
    for case in cases:
        smith.commit(smith.grafted(base(target), case.path, None), target.branch, "mended")
    checked_out(target)
    until(lambda: not target.invalid() and target.in_step(), say=target.status)
    unharmed(target)


@pytest.mark.requirement("E2")
@pytest.mark.parametrize("case", chosen(REFUSED))
def test_a_tree_that_no_workspace_can_hold_is_refused_with_the_way_back(target: Target, case: Refused) -> None:
    smith = Smith(target.git_dir)
    until(target.in_step, say=target.status)
    tree = case.tree(smith, base(target))
    with undone_on_failure(target), target.memory():
        made = smith.commit(tree, target.branch, case.name)
        until(lambda: re.search(case.reason, target.blocker()), say=target.status)
        unharmed(target)
        written = f"concept://shop/despite-{case.name.replace(' ', '-')}"
        target.put(written, summary="x")
    assert git(target.git_dir, "rev-parse", "refs/kgd/head") != made
    told = re.search("`(git -C [^`]+ update-ref [^`]+)`", target.blocker())
    assert told or case.reason in NEWER
    command = told[1] if told else f"git -C {target.work_tree} update-ref {target.branch} refs/kgd/head"
    subprocess.run(shlex.split(command), cwd="/", check=True)
    checked_out(target)
    until(target.in_step, say=target.status)
    assert target.node(written)
    unharmed(target)


@pytest.mark.slow
def test_the_daemon_starts_again_over_each_of_them(fresh_target: Callable[[], Target]) -> None:
    """A tree refused by a running daemon is also refused at the start."""
    for case in [case for case in REFUSED if case.name in FEW | {"no settings", "a newer format", "a way out"}]:
        target = fresh_target()
        end_daemon(target.home)
        smith = Smith(target.git_dir)
        smith.commit(case.tree(smith, base(target)), target.branch, case.name)
        target.status()  # starts it
        with target.memory():
            blocked(target, case.reason)
            target.put("concept://shop/after", summary="x")
        unharmed(target)


@pytest.mark.slow
def test_an_executable_bit_changes_nothing_and_fsck_names_it(target: Target) -> None:
    smith = Smith(target.git_dir)
    until(target.in_step, say=target.status)
    node = smith.blob(b"uri: concept://shop/program\nsummary: x\n")
    smith.commit(smith.grafted(base(target), b"nodes/concept/program.yaml", (PROGRAM, node)), target.branch)
    checked_out(target)
    until(lambda: target.node("concept://shop/program"), say=target.status)
    assert "not a plain file" in target.kgd("fsck").stdout
    unharmed(target)


def test_commands_configured_in_a_repository_are_never_run(target: Target) -> None:
    """Filters, drivers and submodules of a hostile repository, with a person's own git set up to fall for them."""
    smith = Smith(target.git_dir)
    until(target.in_step, say=target.status)
    attributes = smith.blob(b"* filter=evil diff=evil merge=evil text eol=crlf ident\n")
    modules = smith.blob(b'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c "touch ran"\n\tupdate = !touch ran\n')
    tree = smith.grafted(base(target), b".gitattributes", (FILE, attributes))
    smith.commit(tree, target.branch)
    smith.commit(smith.grafted(base(target), b".gitmodules", (FILE, modules)), target.branch)
    until(lambda: ".gitmodules" in git(target.git_dir, "ls-tree", "refs/kgd/head"), say=target.status)
    target.put("concept://shop/good", tags=["touched"])
    until(lambda: target.node("concept://shop/good")["tags"] == ["touched"])
    published = target.work_tree / "nodes/concept/good.yaml"
    until(lambda: b"touched" in published.read_bytes(), say=target.status)
    assert b"\r" not in published.read_bytes()
    target.call("history", {"limit": 5, "diff": True})
    target.kgd("fsck")
    unharmed(target)
    smith.commit(smith.grafted(base(target), b".gitattributes", None), target.branch)
    smith.commit(smith.grafted(base(target), b".gitmodules", None), target.branch)
    until(target.in_step, say=target.status)


@pytest.mark.slow
def test_names_that_differ_only_by_case_are_both_served(target: Target) -> None:
    smith = Smith(target.git_dir)
    until(target.in_step, say=target.status)
    twin = smith.blob(b"uri: concept://shop/GOOD\nsummary: the other one\n")
    smith.commit(smith.grafted(base(target), b"nodes/concept/GOOD.yaml", (FILE, twin)), target.branch)
    checked_out(target)
    until(lambda: target.node("concept://shop/GOOD").get("summary") == "the other one", say=target.status)
    unharmed(target)
    target.call("put", {"changes": [{"op": "delete", "uri": "concept://shop/GOOD"}]})


@pytest.mark.slow
def test_all_nodes_removed_by_a_commit_come_back_with_one_revert(fresh_target: Callable[[], Target]) -> None:
    target = fresh_target()
    git(target.work_tree, "rm", "-rqf", "nodes")
    git(target.work_tree, "commit", "-qm", "everything must go")
    until(lambda: target.node("concept://shop/good") == {}, say=target.status)
    made = git(target.git_dir, "rev-parse", target.branch)
    target.call("put", {"changes": [{"op": "revert", "commit": made}]})
    unharmed(target)


@pytest.mark.large
def test_ten_thousand_entries_and_sixty_folders_are_no_attack(fresh_target: Callable[[], Target]) -> None:
    target = fresh_target()
    smith = Smith(target.git_dir)
    wide = smith.tree(
        Entry(b"n%05d.yaml" % n, FILE, smith.blob(b"uri: concept://shop/wide/n%05d\n" % n)) for n in range(10_000)
    )
    deep = "/".join(["d"] * 60)
    node = smith.blob(f"uri: concept://shop/{deep}/x\n".encode())
    with target.memory():
        smith.commit(smith.grafted(base(target), b"nodes/concept/wide", (FOLDER, wide)), target.branch)
        smith.commit(smith.grafted(base(target), f"nodes/concept/{deep}/x.yaml".encode(), (FILE, node)), target.branch)
        checked_out(target)
        until(lambda: target.status()["counts"]["nodes"] > 10_000, 60, target.status)
        until(lambda: target.node(f"concept://shop/{deep}/x"), say=target.status)
        unharmed(target)
    target.put("concept://shop/wide/n00001", summary="x")


@pytest.mark.slow
def test_a_bomb_in_the_past_is_found_though_the_newest_tree_is_clean(fresh_target: Callable[[], Target]) -> None:
    """Otherwise history, diffs and versions would read it."""
    target = fresh_target()
    smith = Smith(target.git_dir)
    clean = git(target.git_dir, "rev-parse", f"{target.branch}^{{tree}}")
    end_daemon(target.home)
    smith.commit(smith.grafted(base(target), b"nodes/bomb", (FOLDER, smith.bomb())), target.branch, "bomb")
    smith.commit(bytes.fromhex(clean), target.branch, "gone again")
    target.status()  # starts it
    with target.memory():
        until(lambda: "too often" in target.blocker(), say=target.status)
        target.call("history", {"limit": 10, "diff": True})
        target.put("concept://shop/good", tags=["later"])
        unharmed(target)


@pytest.mark.slow
def test_the_history_of_a_remote_is_checked_before_it_is_accepted(
    fresh_target: Callable[[], Target], tmp_path: Path
) -> None:
    """In a clone `kgd up` adopts the workspace of the remote, unless its history holds a bomb."""
    target = fresh_target()
    until(target.in_step, say=target.status)
    end_daemon(target.home)
    smith, clean = Smith(target.git_dir), git(target.git_dir, "rev-parse", f"{target.branch}^{{tree}}")
    smith.commit(smith.grafted(base(target), b"nodes/bomb", (FOLDER, smith.bomb())), target.branch, "bomb")
    smith.commit(bytes.fromhex(clean), target.branch, "gone again")
    git(tmp_path, "clone", "-q", "--bare", str(target.code), "remote.git")
    git(target.git_dir, "push", "-q", str(tmp_path / "remote.git"), f"{target.branch}:refs/heads/kgd")
    git(tmp_path, "clone", "-q", "remote.git", "clone")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kgd.cli", "up"],
        cwd=tmp_path / "clone",
        capture_output=True,
        text=True,
        env={**os.environ, "KGD_HOME": target.home.config},
        check=False,
    )
    assert done.returncode != 0
    assert "cannot be adopted" in done.stderr
    assert not (tmp_path / "clone/.git/kgd").exists()
