"""The author of a hand edit: the person in the nearest git configuration."""

from __future__ import annotations

import gc
import subprocess
from pathlib import Path

import pygit2
import pytest

from kgd.codec.settings import first_files
from kgd.git.creation import create_in_code_repository
from kgd.git.layout import is_known, person
from tests.sync.people import Person, git


def configure(directory: Path, key: str, value: str) -> None:
    subprocess.run(["git", "-C", directory, "config", key, value], check=True)


def test_the_codes_own_identity_counts_and_the_workspaces_own_counts_more(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    layout = create_in_code_repository(tmp_path, "ws", first_files("ws"))
    assert person(layout).name == "Ann Person"
    configure(tmp_path, "user.name", "Ann of this project")
    assert (person(layout).name, person(layout).email) == ("Ann of this project", "ann@example.org")
    configure(layout.work_tree, "user.name", "Ann of this workspace")
    assert person(layout).name == "Ann of this workspace"


def test_without_configuration_a_person_is_named_by_login_and_host(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    layout = create_in_code_repository(tmp_path, "ws", first_files("ws"))
    (Path.home() / ".gitconfig").unlink()
    assert "@" in person(layout).email
    assert person(layout).name
    assert not is_known(layout)
    configure(tmp_path, "user.email", "ann@work.example.org")
    assert is_known(layout)


def test_a_file_named_by_the_environment_replaces_the_usual_one(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path / "code"], check=True)
    layout = create_in_code_repository(tmp_path / "code", "ws", first_files("ws"))
    own = tmp_path / "own"
    own.write_text("[include]\n\tpath = name\n[user]\n\temail = other@example.org\n")
    (tmp_path / "name").write_text("[user]\n\tname = Ann Other\n")
    assert (person(layout, str(own)).name, person(layout, str(own)).email) == ("Ann Other", "other@example.org")
    configure(tmp_path / "code", "user.name", "Ann of this project")
    assert person(layout, str(own)).name == "Ann of this project"
    assert "example.org" not in person(layout, "").email, "without one at all, the usual one does not count either"


@pytest.mark.parametrize("hashes", ["sha1", "sha256"])
def test_the_machines_configuration_counts_less_than_every_other_one(tmp_path: Path, hashes: str) -> None:
    machine = Path(pygit2.settings.search_path[pygit2.enums.ConfigLevel.SYSTEM]) / "gitconfig"
    machine.parent.mkdir()
    machine.write_text("[user]\n\tname = Machine\n\temail = machine@example.org\n")
    own = tmp_path / "own"
    own.write_text("[user]\n\tname = Ann Other\n")
    code = tmp_path / "code"
    subprocess.run(["git", "init", "-q", f"--object-format={hashes}", code], check=True)
    layout = create_in_code_repository(code, "ws", first_files("ws"))
    assert (person(layout, str(own)).name, person(layout, str(own)).email) == ("Ann Other", "machine@example.org")
    assert person(layout, "").name == "Machine"
    assert person(layout).name == "Ann Person"
    (Path.home() / ".gitconfig").unlink()
    assert person(layout).name == "Machine"
    configure(code, "user.name", "Ann of this project")
    assert person(layout).name == person(layout, str(own)).name == "Ann of this project"


def test_commits_name_the_author_as_git_would_and_a_nameless_author_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.write_text("[user]\n\tname = Ann Other\n\temail = other@example.org\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(own))
    ann = Person(tmp_path / "ann")
    ann.put("a", summary="a")
    assert git(ann.tree, "log", "-1", "--format=%ae", "refs/kgd/head") == "other@example.org"
    assert ann.call("whoami")["person"] == "Ann Other <other@example.org>"
    assert ann.call("up", directory=str(ann.tree))["warnings"] == []
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "")
    assert "git does not know who you are" in ann.call("up", directory=str(ann.tree))["warnings"][0]
    ann.close()


@pytest.mark.slow
def test_a_repository_that_was_opened_for_a_name_is_freed_at_once(tmp_path: Path) -> None:
    """Each holds some 10 KiB that the garbage collector does not count."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    layout = create_in_code_repository(tmp_path, "ws", first_files("ws"))
    gc.collect()
    gc.disable()
    try:
        before = open_repositories()
        person(layout)
        assert open_repositories() == before
    finally:
        gc.enable()


def open_repositories() -> int:
    return sum(isinstance(found, pygit2.Repository) for found in gc.get_objects())
