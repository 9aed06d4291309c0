"""Completion, tried in the shells themselves."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kgd.cli import reference
from kgd.cli.commands import GROUPS, VERBS
from kgd.tools.read.complete import MOST
from tests.cli.conftest import Kgd
from tests.waiting import until

ASKED = {
    "kgd trav": {"traverse"},
    "kgd traverse --max-c": {"--max-cost"},
    "kgd -C /tmp -q trav": {"traverse"},
    "kgd -w shop token mi": {"mint"},
    "kgd traverse --direction o": {"out"},
    "kgd completion fi": {"fish"},
    "kgd merge-dr": set(),
}
"""A partial line, and its completions."""


def _bash(line: str) -> set[str]:
    words = " ".join(f"'{word}'" for word in line.split(" "))
    ask = f'COMP_WORDS=({words}); COMP_CWORD={line.count(" ")}; _kgd; printf "%s\\n" "${{COMPREPLY[@]}}"'
    return _printed("bash", f"{reference.script('bash')}\n{ask}")


def _fish(line: str) -> set[str]:
    told = _printed("fish", f"{reference.script('fish')}\ncomplete -C '{line}'")
    return {one.partition("\t")[0] for one in told}


def _printed(shell: str, script: str) -> set[str]:
    done = subprocess.run([shell, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return set(done.stdout.split("\n")) - {""}


@pytest.mark.parametrize("line", ASKED)
def test_bash_completes(line: str) -> None:
    assert _bash(line) == ASKED[line]


@pytest.mark.needs("fish")
def test_fish_completes() -> None:
    assert {line: _fish(line) for line in ASKED} == ASKED


@pytest.mark.needs("fish")
def test_fish_offers_files_where_it_knows_no_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes.md").touch()
    monkeypatch.chdir(tmp_path)
    assert _fish("kgd ingest no") == {"notes.md"}


@pytest.mark.slow
@pytest.mark.needs("zsh")
def test_zsh_completes_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "kgd.zsh").write_text(reference.script("zsh"))
    with Typed(tmp_path) as shell:
        shell.send(f"source {tmp_path}/kgd.zsh; bindkey -e\n")
        for line, became in ASKED.items():
            if became:
                shell.send(f"{line}\t")
                whole = f"{line.rpartition(' ')[0]} {min(became)} "
                assert whole in shell.shows(whole), f"{line} becomes {shell.seen}"
                shell.send("\x15")


class Typed:
    """An interactive zsh."""

    def __init__(self, folder: Path) -> None:
        self.seen = ""
        self._pid, self._end = pty.fork()
        if self._pid == 0:
            os.environ.update(TERM="dumb", ZDOTDIR=str(folder), PS1="> ", HOME=str(folder))
            os.execvp("zsh", ["zsh", "-f", "-i"])

    def __enter__(self) -> Typed:
        return self

    def send(self, text: str) -> None:
        self.seen = ""
        os.write(self._end, text.encode())

    def shows(self, wanted: str, seconds: float = 15) -> str:
        """The output since, once it contains the wanted text."""
        until = time.monotonic() + seconds
        while wanted not in self.seen and time.monotonic() < until:
            if select.select([self._end], [], [], 0.2)[0]:
                self.seen += os.read(self._end, 65_536).decode(errors="replace").replace("\a", "")
        return self.seen

    def __exit__(self, *_: object) -> None:
        os.write(self._end, b"\x15exit\n")
        os.close(self._end)
        os.waitpid(self._pid, 0)


@pytest.mark.parametrize("shell", reference.SHELLS)
def test_every_command_is_offered(shell: str) -> None:
    script = reference.script(shell)
    assert [verb.name for verb in VERBS if verb.group in GROUPS and verb.name not in script] == []


NODES = {
    "kgd get gotcha:keys-": {"gotcha:keys-rotate", "gotcha:keys-expire"},
    "kgd get gotcha://shop/keys-r": {"gotcha://shop/keys-rotate"},
    "kgd get lamps/ha": {"lamps/hall"},
    "kgd get patt": {"pattern:no-retries"},
    "kgd traverse --to lamps/k": {"lamps/kitchen"},
    "kgd -w shop -q show lamps/k": {"lamps/kitchen"},
    "kgd get -w sh": {"shop"},
    "kgd task start task:mend": {"task:mend"},
    "kgd put lamps/hall --summary lam": set[str](),
}
"""A partial line, and the nodes and workspaces that complete it."""


@pytest.fixture
def nodes(kgd: Kgd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kgd:
    """A workspace with nodes, in its directory, with `kgd` on the PATH."""
    uris = (
        "lamps/hall",
        "lamps/kitchen",
        "gotcha:keys-rotate",
        "gotcha:keys-expire",
        "pattern:no-retries",
        "task:mend",
    )
    changes = [{"op": "upsert", "uri": uri, "summary": "x"} for uri in uris]
    kgd("put", "--changes", "-", "-q", stdin=json.dumps(changes))
    program = tmp_path / "bin" / "kgd"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m kgd.cli "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.chdir(kgd.directory)
    return kgd


def _split(line: str) -> list[str]:
    """The words of a line as bash splits them."""
    return [part for word in line.split(" ") for part in re.split("(:)", word) if part or not word]


def _bash_offers(line: str) -> set[str]:
    """The completions, with the part of the last word that bash keeps."""
    words, last = _split(line), line.split(" ")[-1]
    kept = last[: last.rindex(":") + 1] if ":" in last else ""
    asked = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _kgd"
    return {kept + one for one in _printed("bash", f"{reference.script('bash')}\n{asked}\n{PRINTED}")}


PRINTED = """printf '%s\\n' "${COMPREPLY[@]}\""""


@pytest.mark.slow
def test_bash_completes_nodes_and_workspaces_of_the_daemon(nodes: Kgd) -> None:
    def is_right() -> bool:  # a busy daemon offers nothing
        return {line: _bash_offers(line) for line in NODES} == NODES

    until(is_right)


@pytest.mark.slow
@pytest.mark.needs("fish")
def test_fish_completes_nodes_and_workspaces_of_the_daemon(nodes: Kgd) -> None:
    def is_right() -> bool:
        return all(wanted <= _fish(line) for line, wanted in NODES.items())

    until(is_right)


@pytest.mark.slow
@pytest.mark.needs("zsh")
def test_zsh_completes_a_node(nodes: Kgd, tmp_path: Path) -> None:
    (tmp_path / "kgd.zsh").write_text(reference.script("zsh"))
    with Typed(tmp_path) as shell:
        shell.send(f"source {tmp_path}/kgd.zsh; bindkey -e\n")
        shell.send("kgd get gotcha:keys-r\t")
        assert "kgd get gotcha:keys-rotate " in shell.shows("kgd get gotcha:keys-rotate ")


def test_completion_starts_no_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGD_HOME", str(tmp_path / "home"))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kgd.cli", "complete", "node", "a"], capture_output=True, check=True
    )
    assert (done.stdout, done.stderr) == (b"", b"")
    assert not (tmp_path / "home").exists()


def test_as_many_values_are_offered_as_fit_a_screen(nodes: Kgd) -> None:
    changes = [{"op": "upsert", "uri": f"many/n{number}"} for number in range(80)]
    nodes("put", "--changes", "-", "-q", stdin=json.dumps(changes))
    until(lambda: len(nodes("complete", "node", "many/").splitlines()) == MOST)
