"""Which branch of a plain server is guarded is known from before a push, and no push changes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hooks.conftest import Person, clone

POLICY = 'policy:\n- paths: ["/app/**"]\n  people: propose\n'


class Shop:
    """A server with code on `main`, which HEAD names, and a workspace on `kgd` whose policy closes /app."""

    def __init__(self, folder: Path, template: Path) -> None:
        self.folder, self.bare = folder, folder / "shop.git"
        Person(folder).git("init", "-q", "--bare", "--template=", "-b", "main", str(self.bare))
        (self.bare / "hooks").mkdir()
        self.code = Person(folder / "code")
        self.code.tree.mkdir()
        self.code.git("init", "-q", "--template=", "-b", "main")
        (self.code.tree / "run.sh").write_text("#!/bin/sh\n")
        self.code.commit("code")
        self.code.git("push", "-q", str(self.bare), "main")
        self.people = clone(template, folder / "people")
        settings = self.people.tree / "kgd.yaml"
        settings.write_text(settings.read_text() + POLICY)
        self.people.commit("policy")

    def share(self) -> None:
        for tip in ("HEAD~1", "HEAD"):  # the workspace, then its policy
            self.people.git("push", "-q", str(self.bare), f"{tip}:refs/heads/kgd")

    def push_code(self, settings: str) -> None:
        """Somebody who may push code has a file of that name in it."""
        (self.code.tree / "kgd.yaml").write_text(settings)
        self.code.commit("innocent")
        self.code.git("push", "-q", str(self.bare), "main")

    def refuses(self, *words: str, because: str) -> bool:
        done = self.people.run("git", "push", str(self.bare), *words)
        return done.returncode != 0 and because in done.stderr

    def is_guarded(self) -> bool:
        self.people.write("app/z", name="evil")
        self.people.commit("evil")
        return (
            self.refuses("HEAD:kgd", because="/app/**")
            and self.refuses("--force", "HEAD~2:kgd", because="cannot be rewritten")
            and self.refuses(":kgd", because="cannot be deleted")
        )


@pytest.fixture
def shop(tmp_path: Path, template: Path, programs: Path) -> Shop:
    return Shop(tmp_path, template)


@pytest.fixture
def innocent(shop: Shop) -> str:
    """Settings without the policy."""
    return (shop.people.tree / "kgd.yaml").read_text().replace(POLICY, "")


@pytest.mark.slow
@pytest.mark.requirement("B5")
def test_a_kgd_yaml_in_the_code_does_not_switch_the_guard_off(shop: Shop, innocent: str) -> None:
    shop.share()
    Person(shop.bare).kgd("install")
    assert Person(shop.bare).git("config", "kgd.branch").strip() == "refs/heads/kgd"
    shop.push_code(innocent)
    assert shop.is_guarded()


@pytest.mark.slow
def test_nor_where_the_hooks_were_there_before_the_workspace(shop: Shop, innocent: str) -> None:
    Person(shop.bare).kgd("install")
    shop.share()
    shop.push_code(innocent)
    assert shop.is_guarded()


@pytest.mark.slow
def test_an_unreadable_kgd_yaml_in_the_code_does_not_switch_the_guard_off(shop: Shop) -> None:
    shop.share()
    Person(shop.bare).kgd("install")
    shop.push_code("workspace: [\n")
    shop.push_code("mended: true\n")
    assert shop.is_guarded()


@pytest.mark.slow
def test_with_two_possible_branches_pushes_are_refused_until_one_is_configured(shop: Shop, innocent: str) -> None:
    shop.share()
    shop.push_code(innocent)
    assert "several branches here hold a kgd.yaml" in Person(shop.bare).kgd("install")
    assert shop.refuses("HEAD:other", because="so the guarded branch is unknown")
    Person(shop.bare).git("config", "kgd.branch", "refs/heads/kgd")
    assert shop.is_guarded()
    assert "nothing changed" in Person(shop.bare).kgd("install")


@pytest.mark.slow
def test_the_pinned_branch_is_removed_with_the_hooks(shop: Shop) -> None:
    shop.share()
    before = (shop.bare / "config").read_bytes()
    Person(shop.bare).kgd("install")
    assert "nothing changed" in Person(shop.bare).kgd("install")
    Person(shop.bare).kgd("uninstall")
    assert (shop.bare / "config").read_bytes() == before
    assert Person(shop.bare).run("git", "config", "kgd.branch").stdout == ""


@pytest.mark.slow
def test_the_record_of_pushes_is_not_pushed_to(shop: Shop) -> None:
    shop.share()
    Person(shop.bare).kgd("install")
    shop.people.git("notes", "--ref=kgd", "add", "-m", "Kgd-Pushed-By: Boss (x), person", "HEAD")
    assert shop.refuses("refs/notes/kgd", because="this ref cannot be pushed to")
