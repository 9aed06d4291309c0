"""kgd talks to no one unasked, and uninstalling leaves no process, credential or file outside the repositories."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.config import Home
from kgd.config.registry import Entry, RegistryFile
from tests.conftest import ROOT
from tests.daemon.conftest import end_daemon
from tests.e2e.conftest import processes_of
from tests.e2e.lean import LeanClient
from tests.waiting import until

KGD = [sys.executable, "-P", "-m", "kgd.cli"]
OUTSIDE = re.compile(r'connect\(.*sa_family=AF_INET6?\b(?!.*(?:"127\.|"::1"))')


class Person:
    """A user's account: a home directory, a code repository, and a keyring program."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.code, self.keyring = folder, folder / "code", folder / "keyring"
        for made in (self.code, folder / "bin", folder / ".claude"):
            made.mkdir()
        (folder / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@example.org\n")
        (folder / ".claude.json").write_text("{}\n")
        tool = folder / "bin" / "secret-tool"
        held = f"{self.keyring}/held"
        tool.write_text(f'#!/bin/sh\ncase "$1" in store) cat > {held};; lookup) cat {held};; clear) rm {held};; esac\n')
        tool.chmod(0o755)
        self.keyring.mkdir()
        (self.code / "session.py").write_text("def check():\n    return True\n")
        subprocess.run(["git", "init", "-q", "--template=", self.code], check=True)
        self.home = Home.at(str(folder / "kgd"))
        self.environment = {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "HOME": str(folder),
            "KGD_HOME": self.home.config,
            "PYTHONPATH": str(ROOT),
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    def __call__(self, *words: str, before: tuple[str, ...] = ()) -> str:
        done = subprocess.run(
            [*before, *KGD, *words], cwd=self.code, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def files(self) -> set[str]:
        """Every file of the account outside the repository."""
        found = (file for file in self.folder.rglob("*") if file.is_file() and self.code not in file.parents)
        return {str(file.relative_to(self.folder)) for file in found}


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    made = Person(tmp_path)
    yield made
    end_daemon(made.home)


@pytest.mark.slow
def test_uninstalling_removes_every_process_credential_and_file_outside_the_repositories(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, settings = person.files(), (person.folder / ".claude.json").read_text()
    person("up")
    person("agents", "install", "--user", "--client", "claude")
    assert "mcpServers" in (person.folder / ".claude.json").read_text()
    RegistryFile(person.home).register(
        Entry("infra", hub="https://hub.example.org", token="keyring:hub.example.org:443")
    )
    (person.keyring / "held").write_text("kgd_secret")
    for name, value in person.environment.items():
        monkeypatch.setenv(name, value)
    with LeanClient([*KGD, "mcp"], person.code) as client:
        assert client.call("status")["health"]
        assert "would be removed from" in person("uninstall", "--all", "--dry-run")
        person("uninstall", "--all")
        until(lambda: not processes_of(person.home))
    assert person.files() == before
    assert (person.folder / ".claude.json").read_text() == settings


@pytest.mark.slow
@pytest.mark.needs("strace")
def test_a_full_session_connects_to_no_other_machine(person: Person, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    command = ["strace", "-f", "-qq", "-e", "trace=connect,sendto", "-o", str(trace), *KGD, "serve"]
    started = subprocess.Popen(command, cwd=person.code, env=person.environment, stderr=subprocess.DEVNULL)
    until(lambda: Path(person.home.socket).exists())
    person("up")
    document = person.code / "guide.md"
    document.write_text("# Guide\n\nSee https://example.org/guide and mailto:ann@example.org.\n")
    person("put", "cart", "--summary", "A cart", "--relations", "see:https://example.org/cart")
    person("ingest", str(document))
    asked = "search cart", "context session.py", "traverse cart", "ui --print", "doctor", "status", "fsck"
    for words in (*asked, "export --to jsonl -", "compress --dry-run"):
        person(*words.split())
    person("down")
    started.wait(30)
    calls = trace.read_text().splitlines()
    assert any("AF_UNIX" in line or "connect(" in line or "sendto(" in line for line in calls), "strace saw the daemon"
    assert [line for line in calls if OUTSIDE.search(line)] == []


def test_the_filter_knows_another_machine_from_this_one() -> None:
    def call(family: str, address: str) -> str:
        return f'7 connect(3, {{sa_family={family}, sin_port=htons(443), sin_addr=inet_addr("{address}")}}, 16) = 0'

    assert OUTSIDE.search(call("AF_INET", "192.0.2.7"))
    assert OUTSIDE.search(call("AF_INET6", "2001:db8::7"))
    assert not OUTSIDE.search(call("AF_INET", "127.0.0.1"))
    assert not OUTSIDE.search('7 connect(3, {sa_family=AF_UNIX, sun_path="/x"}, 9) = 0')
