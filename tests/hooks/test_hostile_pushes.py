"""What a push must not bring is refused for everybody, by its header, name or mode, before it is read."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hooks.conftest import Person
from tests.hostile.trees import FILE, FOLDER, LINK, PROGRAM, SUBMODULE, Entry, Smith

NODE = b"uri: concept://ws/bomb\n"
SECONDS = 60.0
"""Within which anything is refused here, git's own work and a busy machine included."""


@pytest.fixture
def guarded(upstream: Path) -> Path:
    Person(upstream).kgd("install")
    return upstream


@pytest.fixture
def smith(bob: Person, guarded: Path) -> Smith:
    return Smith(bob.git_dir)


def deep(smith: Smith) -> bytes:
    below = Entry(b"x.yaml", FILE, smith.blob(NODE))
    for _ in range(90):
        below = Entry(b"d", FOLDER, smith.tree([below]))
    return smith.grafted("HEAD:", b"nodes/deep", (FOLDER, below.id))


def wide(smith: Smith) -> bytes:
    blob = smith.blob(NODE)
    tree = smith.tree((Entry(b"%07d.yaml" % n, FILE, blob) for n in range(200_000)), in_order=False)
    return smith.grafted("HEAD:", b"nodes/wide", (FOLDER, tree))


def at(path: bytes, mode: bytes, data: bytes = NODE) -> Callable[[Smith], bytes]:
    return lambda smith: smith.grafted("HEAD:", path, (mode, smith.blob(data)))


ATTACKS: dict[str, tuple[Callable[[Smith], bytes], str]] = {
    "a symbolic link": (at(b"nodes/concept/link.yaml", LINK, b"/etc/passwd"), "a symbolic link"),
    "a link instead of a folder": (at(b"memories", LINK, b"/tmp"), "a symbolic link"),
    "a submodule": (lambda s: s.grafted("HEAD:", b"nodes/sub", (SUBMODULE, b"\1" * 20)), "a submodule"),
    "its list": (at(b".gitmodules", FILE, b'[submodule "x"]\n'), "not allowed in a work tree"),
    "a program": (at(b"nodes/concept/run.yaml", PROGRAM), "an executable file"),
    "a name with a line end": (at(b"nodes/concept/a\nb.yaml", FILE), "not allowed in a work tree"),
    "a name with a backslash": (at(b"nodes/concept/a\\..\\b.yaml", FILE), "not allowed in a work tree"),
    "a name that is no text": (at(b"nodes/concept/\xff.yaml", FILE), "not allowed in a work tree"),
    "a short name of .git": (at(b"git~1", FILE), "not allowed in a work tree"),
    "attributes below the top": (
        at(b"nodes/.gitattributes", FILE, b"* filter=x\n"),
        "a .gitattributes file below the top",
    ),
    "a large file": (at(b"memories/2026-01-01-x.md", FILE, b"x" * 3_000_000), "3000000 bytes"),
    "many brackets": (at(b"nodes/concept/bomb.yaml", FILE, b"uri: " + b"[" * 60_000), "nodes/concept/bomb.yaml:1"),
    "a mere million of names": (wide, "a tree has"),
    "a deep folder": (deep, "nested deeper"),
    "a tree that names itself over and over": (
        lambda s: s.grafted("HEAD:", b"nodes/bomb", (FOLDER, s.bomb())),
        "the same few objects",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", ATTACKS)
def test_harmful_pushes_are_refused_and_leave_no_objects(what: str, smith: Smith, bob: Person, guarded: Path) -> None:
    make, said = ATTACKS[what]
    before = Person(guarded).git("rev-parse", "main")
    smith.commit(make(smith), "refs/heads/main")
    began = time.monotonic()
    done = bob.run("git", "push", "origin", "main")
    assert done.returncode != 0
    assert said in done.stderr, done.stderr
    assert time.monotonic() - began < SECONDS
    assert Person(guarded).git("rev-parse", "main") == before
    assert not list((guarded / "objects").glob("*incoming*"))


@pytest.mark.slow
def test_a_link_that_a_later_commit_takes_away_is_refused(smith: Smith, bob: Person) -> None:
    sound = bytes.fromhex(bob.tree_id())
    smith.commit(at(b"nodes/concept/link.yaml", LINK, b"/etc/passwd")(smith), "refs/heads/main")
    smith.commit(sound, "refs/heads/main")
    done = bob.run("git", "push", "origin", "main")
    assert done.returncode != 0
    assert "a symbolic link" in done.stderr


@pytest.mark.slow
def test_a_blob_that_inflates_without_end_is_refused_by_its_header(smith: Smith, bob: Person) -> None:
    bomb = smith.zeros(64 << 20)
    smith.commit(smith.grafted("HEAD:", b"nodes/concept/bomb.yaml", (FILE, bomb)), "refs/heads/main")
    done = bob.run("git", "-c", "core.bigFileThreshold=1m", "push", "origin", "main")
    assert done.returncode != 0
    assert "a blob has 67108864 bytes" in done.stderr


@pytest.mark.slow
def test_an_unrelated_history_and_a_tag_are_no_workspace(bob: Person, guarded: Path) -> None:
    bob.git("tag", "-a", "v1", "-m", "a tag")
    assert "this is not a commit" in bob.run("git", "push", "origin", "v1^{tag}:refs/heads/proposals/tag").stderr
    bob.git("switch", "-q", "--orphan", "other")
    bob.write("x", name="other")
    bob.commit()
    assert "in common" in bob.run("git", "push", "origin", "HEAD:refs/heads/proposals/other").stderr
    assert bob.run("git", "push", "--force", "origin", "HEAD:main").returncode != 0


@pytest.mark.slow
def test_a_node_that_cannot_be_served_at_the_end_is_refused_and_on_the_way_it_is_not(
    bob: Person, guarded: Path
) -> None:
    bob.file("x").write_text("uri: concept://ws/x\nname: one\nname: two\n")
    bob.commit()
    assert "nodes/concept/x.yaml:3" in bob.run("git", "push").stderr
    bob.write("x", name="mended")
    bob.commit()
    bob.git("push", "-q")


@pytest.mark.slow
def test_the_settings_that_make_the_workspace_stay(bob: Person, guarded: Path) -> None:
    sound = (bob.tree / "kgd.yaml").read_text()
    (bob.tree / "kgd.yaml").write_text(sound.replace("workspace: ws", "workspace: mine"))
    bob.commit()
    assert "cannot be changed" in bob.run("git", "push").stderr
    bob.git("rm", "-q", "kgd.yaml")
    bob.commit()
    assert "a workspace needs this file" in bob.run("git", "push").stderr
