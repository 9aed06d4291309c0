"""State that an earlier version left: a later one opens it without help, a downgrade says what it cannot read."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kgd.config import Home
from tests import forked
from tests.conftest import ROOT
from tests.daemon.conftest import end_daemon
from tests.hub.conftest import Hub
from tests.release.old_state import ASKED, unpacked

STATES = sorted(Path(__file__).parent.glob("kgd-*.tar.xz"))
"""One archive for each released version."""


@dataclass
class Upgraded:
    """This kgd over the state of an earlier one."""

    place: Path
    home: Home
    answers: dict[str, Any]

    def run(self, folder: str, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "KGD_HOME": self.home.config, "PYTHONPATH": str(ROOT)}
        return forked.run(words, self.place / folder, environment)

    def json(self, folder: str, *words: str) -> dict[str, Any]:
        done = self.run(folder, *words, "--json")
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def databases(self) -> list[Path]:
        return [*self.place.glob("*/.git/kgd/**/*.sqlite"), self.place / "home" / "state" / "hub.db"]


@pytest.fixture(params=STATES, ids=lambda archive: archive.name.removesuffix(".tar.xz"))
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Upgraded]:
    answers = unpacked(request.param, tmp_path)
    home = Home.at(str(tmp_path / "home"))
    yield Upgraded(tmp_path, home, answers)
    end_daemon(home)


def same_as_before(old: Upgraded) -> None:
    now = {name: old.json("shop", *words) for name, words in ASKED.items()}
    before = old.answers
    for name in ("cart", "decision"):
        then, node = before[name]["nodes"][0], now[name]["nodes"][0]
        kept = ("uri", "type", "name", "version", "summary", "content", "tags", "created", "updated", "relations")
        assert {key: node.get(key) for key in kept} == {key: then.get(key) for key in kept}
    assert [one["commit"] for one in now["history"]["commits"]] == [
        one["commit"] for one in before["history"]["commits"]
    ]
    reached = [[(node["uri"], node["cost"]) for node in answer["walk"]["nodes"]] for answer in (now, before)]
    assert reached[0] == reached[1]
    assert [one["id"] for one in now["conflicts"]["conflicts"]] == [
        one["id"] for one in before["conflicts"]["conflicts"]
    ]
    assert old.json("code", "recall", "sessions")["hits"][0]["uri"] == before["code"]["hits"][0]["uri"]


@pytest.mark.slow
def test_nodes_versions_history_walks_and_conflicts_are_as_they_were(old: Upgraded) -> None:
    same_as_before(old)
    assert old.json("shop", "doctor")["ok"]


@pytest.mark.slow
def test_a_request_id_that_was_applied_before_the_upgrade_is_not_applied_again(old: Upgraded) -> None:
    again = old.json("shop", "put", "cart", "--summary", "again", "--request-id", "old-request-0001")
    assert again["repeated"]


@pytest.mark.slow
def test_a_token_stays_valid_and_a_revoked_one_stays_revoked(old: Upgraded) -> None:
    environment = {**os.environ, "KGD_HOME": old.home.config, "PYTHONPATH": str(ROOT)}
    hub = Hub(old.home, old.place, ("--listen", "127.0.0.1:0", "--workspace", "shop"), environment=environment).start()
    try:
        answer = hub.post(old.answers["tokens"]["kept"]["token"], "shop/get", {"uris": ["cart"]})
        assert answer.json["nodes"][0]["summary"] == "three"
        assert hub.post(old.answers["tokens"]["gone"]["token"], "shop/get", {"uris": ["cart"]}).status == 401
    finally:
        hub.stop()


@pytest.mark.slow
@pytest.mark.parametrize("version", [0, 1_000], ids=["older", "newer"])
def test_caches_of_another_format_are_built_anew_without_a_word(old: Upgraded, version: int) -> None:
    for file in old.databases():
        if file.name != "hub.db":
            with sqlite3.connect(file) as database:
                database.execute(f"PRAGMA user_version = {version}")
    same_as_before(old)
    assert old.json("shop", "status")["health"] == "ok"


def test_a_downgrade_reads_the_workspace_and_names_the_newer_format(old: Upgraded) -> None:
    settings = old.place / "shop" / "kgd.yaml"
    settings.write_text(settings.read_text().replace("format: 1", "format: 2"))
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    for words in ((*who, "commit", "-qam", "a newer format"), ("update-ref", "refs/kgd/head", "HEAD")):
        subprocess.run(["git", *words], cwd=old.place / "shop", check=True)
    assert old.json("shop", "get", "cart")["nodes"][0]["summary"] == "three"
    refused = old.run("shop", "put", "cart", "--summary", "written")
    assert refused.returncode != 0
    assert "format 2; this kgd supports 1" in refused.stderr


def test_a_downgrade_names_the_tokens_that_it_cannot_read_and_leaves_them(old: Upgraded) -> None:
    file = old.place / "home" / "state" / "hub.db"
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA user_version = 1000")
    before = file.read_bytes()
    refused = old.run("shop", "token", "list")
    assert refused.returncode != 0
    assert "a newer kgd wrote the hub's tokens: format 1000" in refused.stderr
    assert file.read_bytes() == before
