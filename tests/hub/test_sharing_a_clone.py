"""A clone that was made as the page says, with the token in the address, is shared: the token leaves the address."""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kgd.config.credentials import secret
from kgd.errors import KgdError
from tests.hub.conftest import Hub
from tests.sync.people import Person, bare, git

Ways = Callable[[Person, Hub], dict[str, Any]]


@pytest.fixture
def cloned(hub: Hub, tmp_path: Path) -> Iterator[tuple[Person, str]]:
    token = hub.mint("read,write", name="Ann")
    at = tmp_path / "ann" / "knowledge"
    subprocess.run(["git", "clone", "-q", hub.git_url(token), at], check=True)
    person = Person(tmp_path / "ann", tree=at)
    yield person, token
    person.close()


def by_share(person: Person, hub: Hub) -> dict[str, Any]:
    return person.call("share", sync=0)


def by_address(person: Person, hub: Hub) -> dict[str, Any]:
    return person.call("remote", action="add", name="origin", url=f"{hub.url}/git/infra", sync=0)


@pytest.mark.slow
@pytest.mark.parametrize("way", [by_share, by_address])
def test_the_token_is_kept_by_reference_and_in_no_address(hub: Hub, cloned: tuple[Person, str], way: Ways) -> None:
    person, token = cloned
    said = way(person, hub)
    (remote,) = said["remotes"]
    assert (remote["state"], remote["url"]) == ("ok", f"{hub.url}/git/infra")
    assert token not in (person.tree / ".git/config").read_text()
    assert token not in str(said)
    reference = git(person.tree, "config", "remote.origin.kgdtoken")
    assert reference in said["warnings"][0]
    kept = Path(reference.removeprefix("file:"))
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert secret(reference).endswith(token)
    person.put(f"services/{way.__name__}", summary="by a clone")
    assert person.sync()["pushed"] == 1
    person.call("remote", action="remove", name="origin")
    assert not kept.exists(), "it goes with the remote it was for"


def test_a_token_that_is_named_is_used_instead_and_is_left_where_it_is(
    hub: Hub, cloned: tuple[Person, str], tmp_path: Path
) -> None:
    person, token = cloned
    own = tmp_path / "own"
    own.write_text(token)
    own.chmod(0o600)
    said = person.call("share", token=f"file:{own}", sync=0)
    assert said["remotes"][0]["state"] == "ok"
    assert token not in (person.tree / ".git/config").read_text()
    person.call("remote", action="remove", name="origin")
    assert own.exists()


def test_a_remote_that_cannot_be_shared_through_stays_gits_own_as_it_was(
    cloned: tuple[Person, str], tmp_path: Path
) -> None:
    person, _ = cloned
    bare(tmp_path / "other.git")
    other = tmp_path / "code"
    subprocess.run(["git", "clone", "-q", tmp_path / "other.git", other], check=True, capture_output=True)
    (other / "main.c").write_text("int main;")
    git(other, "add", ".")
    git(other, "commit", "-qm", "code")
    git(other, "push", "-q", "origin", "HEAD:main")
    git(person.tree, "remote", "set-url", "origin", str(tmp_path / "other.git"))
    before = git(person.tree, "config", "--get-regexp", "^remote|^branch")
    with pytest.raises(KgdError, match="does not contain a workspace"):
        person.call("share", sync=0)
    assert git(person.tree, "config", "--get-regexp", "^remote|^branch") == before
