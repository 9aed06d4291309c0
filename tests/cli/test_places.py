"""A repository that was moved or copied: found again, and never taken for another."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from pathlib import Path

import pytest

from kgd.cli.commands import EXIT_CODES
from tests.cli.conftest import Kgd
from tests.waiting import until

pytestmark = pytest.mark.slow

_numbers = itertools.count()


@pytest.fixture
def shop(kgd: Kgd, tmp_path: Path) -> Path:
    """A repository of its own for this test, with an id of its own: its folder's name."""
    made = tmp_path / f"depot{next(_numbers)}"
    made.mkdir()
    subprocess.run(["git", "init", "-q", made], check=True)
    (made / "a.txt").write_text("a\n")
    kgd.directory = made
    kgd("up", "--quiet")
    kgd("put", "fact", "--summary", "it is here")
    return made


def test_from_every_folder_and_worktree_of_the_project_the_same_workspace_is_found(kgd: Kgd, shop: Path) -> None:
    subprocess.run(["git", "add", "a.txt"], cwd=shop, check=True)
    subprocess.run(["git", "commit", "-qm", "a"], cwd=shop, check=True)
    subprocess.run(["git", "worktree", "add", "-q", "../second"], cwd=shop, check=True)
    (shop / "deep" / "er").mkdir(parents=True)
    for place in (shop / "deep" / "er", shop.parent / "second"):
        kgd.directory = place
        assert "it is here" in kgd("get", "fact")


def test_up_reports_that_a_workspace_is_named_after_the_remote(kgd: Kgd, tmp_path: Path) -> None:
    made = tmp_path / "mine"
    subprocess.run(["git", "init", "-q", made], check=True)
    subprocess.run(["git", "-C", made, "remote", "add", "origin", str(tmp_path / "theirs.git")], check=True)
    kgd.directory = made
    named = "  named      after the remote origin; only the first `kgd up` can choose another name, with --id\n"
    assert kgd("up").startswith(f"workspace theirs is created\n{named}")
    assert named not in kgd("up")


def test_up_names_the_files_that_it_cannot_read(kgd: Kgd, shop: Path) -> None:
    folder = shop / ".kgd" / "nodes" / "insight"
    folder.mkdir(parents=True)
    (folder / "broken.yaml").write_text("summary: [\n")
    until(lambda: "  ! nodes/insight/broken.yaml:2: this is not YAML" in kgd("up"))


def test_a_removed_workspace_is_reported_as_restored(kgd: Kgd, shop: Path) -> None:
    assert "  `kgd up` in the same directory restores it\n" in kgd("uninstall")
    assert kgd("up", "--dry-run").startswith(f"would restore workspace {shop.name}\n")
    assert kgd("up").startswith(f"workspace {shop.name} is restored with the knowledge that was kept here\n")
    assert "it is here" in kgd("get", "fact")
    assert kgd("up").startswith(f"workspace {shop.name} is up\n")


def test_a_repository_that_was_moved_registers_itself(kgd: Kgd, shop: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shop.rename(moved)
    kgd.directory = moved
    assert "it is here" in kgd("get", "fact")
    assert kgd.json("config")["workspaces"][shop.name] == str(moved)


def test_a_copy_with_the_same_id_is_refused_until_it_takes_the_others_place(
    kgd: Kgd, shop: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(shop, copy, symlinks=True, ignore=shutil.ignore_patterns("*.lock"))
    kgd.directory = copy
    refused = kgd.run("get", "fact")
    assert refused.returncode == EXIT_CODES["INVARIANT_VIOLATION"][0]
    assert "--replace" in refused.stderr
    kgd("up", "--replace", "--quiet")
    assert "it is here" in kgd("get", "fact")
    assert kgd.json("config")["workspaces"][shop.name] == str(copy)


def test_a_registry_that_is_edited_wrong_is_named_in_status_and_nothing_else_stops(kgd: Kgd, shop: Path) -> None:
    registry = Path(kgd.home.registry)
    good = registry.read_text()
    registry.write_text(good + "other: 1\n")
    try:
        assert "it is here" in kgd("get", "fact")
        assert "workspaces.yaml:" in kgd("status")
    finally:
        registry.write_text(good)


def test_uninstall_leaves_the_knowledge_and_says_where(kgd: Kgd, shop: Path) -> None:
    kgd("install")
    before = kgd("uninstall", "--dry-run")
    assert "would remove" in before
    assert f"kgd's settings and hooks would be removed from {shop / '.git' / 'kgd'}" in before
    said = kgd("uninstall")
    assert "kgd's settings and hooks are removed from" in said
    kept = next(line.rpartition(" in ")[2] for line in said.splitlines() if "knowledge" in line)
    assert Path(kept, "HEAD").exists()
    assert not (shop / ".kgd").exists()
    assert shop.name not in kgd.json("config")["workspaces"]


@pytest.fixture
def second(kgd: Kgd, shop: Path) -> Path:
    """Another clone of the code whose workspace is shared and here already."""
    bare = shop.with_name("shared.git")
    for command in (
        ["init", "-q", "--bare", str(bare)],
        ["-C", str(shop), "add", "."],
        ["-C", str(shop), "commit", "-qm", "a"],
        ["-C", str(shop), "remote", "add", "origin", str(bare)],
        ["-C", str(shop), "push", "-q", "origin", "HEAD"],
    ):
        subprocess.run(["git", *command], check=True)
    kgd("share")
    made = shop.with_name("second")
    subprocess.run(["git", "clone", "-q", bare, made], check=True)
    kgd.directory = made
    return made


@pytest.mark.parametrize("wanted", [(), ("--id", "of-its-own")])
def test_a_second_clone_is_refused_with_what_can_be_done_and_nothing_is_left_of_it(
    kgd: Kgd, shop: Path, second: Path, wanted: tuple[str, ...]
) -> None:
    first, again = kgd.run("up", *wanted), kgd.run("up", *wanted)
    assert first.returncode == EXIT_CODES["INVARIANT_VIOLATION"][0]
    assert first.stderr == again.stderr
    for said in (f"'{shop.name}'", str(shop), "`kgd up --replace`"):
        assert said in first.stderr
    assert not (second / ".kgd").exists()
    assert not (second / ".git" / "kgd").exists()
    kgd("up", "--replace", "--quiet")
    assert "it is here" in kgd("get", "fact")


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ("--depth=1", "is a shallow clone, which lacks older history"),
        ("--filter=blob:none", "is a partial clone"),
    ],
)
def test_a_clone_of_knowledge_without_all_objects_is_refused_with_the_remedy(
    kgd: Kgd, shop: Path, tmp_path: Path, way: str, reason: str
) -> None:
    clone = cloned(shop, tmp_path, way)
    kgd.directory = clone
    before = sorted(path.name for path in clone.iterdir())
    refused = kgd.run("up")
    assert refused.returncode == EXIT_CODES["UNAVAILABLE"][0]
    assert f"the repository {reason}" in refused.stderr
    assert sorted(path.name for path in clone.iterdir()) == before


def test_a_shallow_clone_of_knowledge_is_adopted_after_the_named_command(kgd: Kgd, shop: Path, tmp_path: Path) -> None:
    kgd.directory = cloned(shop, tmp_path, "--depth=1")
    command = kgd.run("up").stderr.split("`")[1]
    subprocess.run(command, shell=True, check=True)
    assert "adopted    this clone" in kgd("up", "--replace")
    assert "it is here" in kgd("get", "fact")


def test_a_search_finds_texts_without_the_history_and_reports_the_index_as_degraded(
    kgd: Kgd, shop: Path, tmp_path: Path
) -> None:
    kgd.directory = clone = cloned(shop, tmp_path, "--depth=1")
    (clone / ".git/shallow").unlink()
    kgd("up", "--replace", "--quiet")
    until(lambda: "it is here" in kgd("search", "here"))
    found = kgd("search", "here")
    assert "! The text index is degraded, so a search may miss texts: " in found
    assert kgd("recall", "giraffe").startswith("The text index is degraded")
    assert "The text index is degraded" in kgd("context", "--question", "giraffe")


def cloned(shop: Path, tmp_path: Path, way: str) -> Path:
    """A clone of the shop's workspace that git made in this way."""
    source = shop / ".git/kgd"
    for name in ("allowFilter", "allowAnySHA1InWant"):
        subprocess.run(["git", "-C", source, "config", f"uploadpack.{name}", "true"], check=True)
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", way, "-b", "kgd", f"file://{source}", clone], check=True)
    return clone


def test_a_command_in_a_second_clone_advises_a_command_that_works(kgd: Kgd, shop: Path, second: Path) -> None:
    for words in (["recall", "fact"], ["status"], ["remember", "Two clones."]):
        done = kgd.run(*words)
        said = f"`kgd up --replace` in this directory to use this clone instead of {shop}."
        assert said in done.stdout + done.stderr
    kgd("up", "--replace", "--quiet")
    assert "it is here" in kgd("get", "fact")


@pytest.fixture
def unshared(kgd: Kgd, shop: Path) -> Path:
    """A second clone of the code, whose workspace is not shared; commands run in it."""
    made = shop.with_name("twin")
    for command in (
        ["-C", str(shop), "add", "."],
        ["-C", str(shop), "commit", "-qm", "a"],
        ["-C", str(shop), "remote", "add", "origin", f"{shop}.git"],
        ["clone", "-q", str(shop), str(made)],
        ["-C", str(made), "remote", "set-url", "origin", f"{shop}.git"],
    ):
        subprocess.run(["git", *command], check=True)
    kgd.directory = made
    return made


def test_a_second_clone_uses_the_memory_of_the_first_one_by_its_id(kgd: Kgd, shop: Path, unshared: Path) -> None:
    refused = kgd.run("up")
    assert "is already on this machine, in another clone" in refused.stderr
    assert f"Use it from here with `-w {shop.name}`" in refused.stderr
    advice = kgd.run("remember", "Two clones.").stderr
    assert f"Name one with `-w`: {shop.name}; or run `kgd up --id NEW`" in advice
    (unshared / "inner").mkdir()
    (shop / "inner").mkdir()
    for top in (shop, unshared):
        (top / "inner" / "two.py").write_text("TWO = 2\n")
    kgd.directory = unshared / "inner"
    kgd("-w", shop.name, "remember", "Two is two.", "--about", "./two.py", "--cites", "two.py")
    for path in ("two.py", "./two.py", str(unshared / "inner" / "two.py")):
        assert "Two is two." in kgd("-w", shop.name, "context", path)
    kgd.directory = shop
    assert "inner/two.py" in kgd("get", "insight:two-is-two")


def test_a_replaced_workspace_that_starts_empty_names_the_place_of_its_knowledge(
    kgd: Kgd, shop: Path, unshared: Path
) -> None:
    kgd("-w", shop.name, "remember", "Two clones.")
    told = kgd("up", "--replace")
    assert f"'{shop.name}' starts empty here; its knowledge stays in {shop}, where `kgd up --replace` uses it" in told
    kgd.directory = shop
    kgd("up", "--replace")
    assert "Two clones." in kgd("recall", "clones")


def test_a_command_in_other_code_of_the_same_name_advises_an_id_of_its_own(kgd: Kgd, shop: Path) -> None:
    kgd.directory = shop.parent / "other" / shop.name
    subprocess.run(["git", "init", "-q", kgd.directory], check=True)
    assert "`kgd up --id NEW` in this directory" in kgd.run("recall", "fact").stderr
    kgd("up", "--id", "of-its-own", "--quiet")


def test_an_adopted_workspace_keeps_its_id_and_a_different_requested_id_is_refused(
    kgd: Kgd, shop: Path, second: Path
) -> None:
    kgd("uninstall", "--workspace", shop.name)
    refused = kgd.run("up", "--id", "of-its-own")
    assert f"Leave out --id to work with '{shop.name}'" in refused.stderr
    assert not (second / ".kgd").exists()
    assert kgd("up").startswith(f"workspace {shop.name} is created\n")
    kgd("uninstall")
    assert "whose id is part of all its URIs" in kgd.run("up", "--id", "of-its-own").stderr
    assert kgd("up").startswith(f"workspace {shop.name} is restored")
