"""kgd talks to no one unasked, and uninstalling leaves no process, credential or file outside the repositories."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kgd.config import Home
from kgd.config.entries import Entry
from kgd.config.registry import RegistryFile
from tests.conftest import ROOT
from tests.daemon.conftest import end_daemon
from tests.e2e.conftest import processes_of
from tests.e2e.lean import LeanClient
from tests.hub.conftest import new_hub
from tests.waiting import until

KGD = [sys.executable, "-P", "-m", "kgd.cli"]
CALLS = "connect,sendto,sendmsg,sendmmsg"
OUTSIDE = re.compile(
    r'(?:connect|send\w+)\(.*sa_family=AF_INET6?\b(?:.*htons\(53\)|(?!.*(?:"127\.|"::1"|"::ffff:127\.)))'
)
"""A call that reaches another machine, or asks a name server, which may be on this machine."""


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
    others = processes_of(person.home)  # ended children of earlier tests
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
        until(lambda: processes_of(person.home) == others, say=lambda: commands(processes_of(person.home)))
    assert person.files() == before
    assert (person.folder / ".claude.json").read_text() == settings


def commands(processes: list[int]) -> list[str]:
    """The state and command of each process that still exists."""
    found = []
    for process in processes:
        with suppress(OSError):
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
            found.append(f"{process} {state} {Path(f'/proc/{process}/cmdline').read_text()}")
    return found


class Tracer:
    """Traces programs and all their children."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._names = folder, list[str]()
        folder.mkdir()

    def __call__(self, name: str) -> tuple[str, ...]:
        """The words before a command of this name."""
        self._names.append(name)
        trace = self.folder / f"{len(self._names)}-{name}"
        return ("strace", "-f", "-qq", "-s", "0", "-e", f"trace={CALLS}", "-o", str(trace))

    def outside(self) -> list[str]:
        """The calls that leave this machine. Each program connected to something, so its calls were seen."""
        found = list[str]()
        for trace in self.folder.iterdir():
            calls = trace.read_text().splitlines()
            assert any(f"{call}(" in line for line in calls for call in CALLS.split(",")), trace.name
            found += [f"{trace.name}: {line}" for line in calls if OUTSIDE.search(line)]
        assert len(list(self.folder.iterdir())) == len(self._names)
        return found


LIBRARY = "import kgd; ws = kgd.open('.'); ws.traverse(ws.create_node('concept', 'stock', summary='Goods'))"


@pytest.mark.slow
@pytest.mark.needs("strace")
def test_a_full_session_connects_to_no_other_machine(
    person: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced = Tracer(tmp_path / "traces")
    command = [*traced("daemon"), *KGD, "serve"]
    started = subprocess.Popen(command, cwd=person.code, env=person.environment, stderr=subprocess.DEVNULL)
    until(lambda: Path(person.home.socket).exists())
    person("up", before=traced("up"))
    document = person.code / "guide.md"
    document.write_text("# Guide\n\nSee https://example.org/guide and mailto:ann@example.org.\n")
    person("put", "cart", "--summary", "A cart", "--relations", "see:https://example.org/cart", before=traced("put"))
    person("ingest", str(document), before=traced("ingest"))
    asked = "search cart", "context session.py", "traverse cart", "ui --print", "doctor", "status", "fsck"
    for words in (*asked, "export --to jsonl -", "compress --dry-run"):
        person(*words.split(), before=traced(words.split()[0]))
    remote = tmp_path / "remote.git"
    subprocess.run(["git", "init", "-q", "--bare", "--template=", remote], check=True)
    subprocess.run(["git", "remote", "add", "origin", remote], cwd=person.code, check=True)
    person("share", "--sync", "0", before=traced("share"))
    person("sync", before=traced("sync"))
    for name, value in person.environment.items():
        monkeypatch.setenv(name, value)
    with LeanClient([*traced("mcp"), *KGD, "mcp"], person.code) as client:
        assert client.call("search", query="cart")["hits"]
    library = [*traced("library"), sys.executable, "-P", "-c", LIBRARY]
    subprocess.run(library, cwd=person.code, check=True, stdout=subprocess.DEVNULL)
    hub = new_hub(tmp_path / "hub")
    hub.before = traced("hub")
    hub.start()
    hub.put("concept://infra/keys", summary="Signs")
    assert hub.post(hub.mint("read"), "infra/search", {"query": "keys"}).json["hits"]
    for environment in (hub.environment, person.environment):
        subprocess.run([*KGD, "down"], cwd=tmp_path, env=environment, check=True, capture_output=True)
    started.wait(30)
    hub.stop()
    assert traced.outside() == []


def test_the_filter_knows_another_machine_from_this_one() -> None:
    def call(family: str, address: str, port: int = 443) -> str:
        return f'{{sa_family={family}, sin_port=htons({port}), sin_addr=inet_addr("{address}")}}, 16'

    for before in (
        "7 connect(3, ",
        '7 sendto(3, ""..., 9, 0, ',
        "7 sendmsg(3, {msg_name=",
        "7 sendmmsg(3, [{msg_name=",
    ):
        assert OUTSIDE.search(before + call("AF_INET", "192.0.2.7"))
        assert OUTSIDE.search(before + call("AF_INET6", "2001:db8::7"))
        assert OUTSIDE.search(before + call("AF_INET", "127.0.0.53", 53)), "a name server"
        assert not OUTSIDE.search(before + call("AF_INET", "127.0.0.1"))
    assert not OUTSIDE.search('7 connect(3, {sa_family=AF_UNIX, sun_path="/x"}, 9) = 0')
