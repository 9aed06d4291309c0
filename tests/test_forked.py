"""A forked command is the program: same output, exit code, directory, environment and input. So is a parser."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kgd.config import Home
from kgd.daemon import code_index_process
from kgd.daemon.process import holder
from kgd.index.code_index import CodeIndex
from kgd.symbols.extraction import VERSION
from kgd.workspace import child_process
from kgd.workspace.child_process import ChildProcess
from tests import forked
from tests.daemon.conftest import end_daemon
from tests.faults.derived_work import children

KGD = [sys.executable, "-P", "-m", "kgd.cli"]


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (["--version"], ""),
        (["config"], ""),
        (["nosuch"], ""),
        (["-C", "/no/such/place", "status"], ""),
        (["join"], "x"),
    ],
)
def test_a_forked_command_does_what_the_program_does(words: list[str], stdin: str, tmp_path: Path) -> None:
    environment = {**os.environ, "KGD_HOME": str(tmp_path / "home"), "PYTHONPATH": str(forked.ROOT)}
    done = subprocess.run(
        [*KGD, *words], cwd=tmp_path, env=environment, input=stdin, capture_output=True, text=True, check=False
    )
    same = forked.run(words, tmp_path, environment, stdin)
    assert (same.returncode, same.stdout, same.stderr) == (done.returncode, done.stdout, done.stderr)


def test_two_commands_do_not_affect_each_other(tmp_path: Path) -> None:
    for name in ("one", "two"):
        home = tmp_path / name
        home.mkdir()
        shown = forked.run(["config"], home, {**os.environ, "KGD_HOME": str(home)}).stdout
        assert shown.splitlines()[0].endswith(str(home / "workspaces.yaml"))


def test_a_variable_that_the_interpreter_reads_at_its_start_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="PYTHONHASHSEED"):
        forked.run(["--version"], tmp_path, {**os.environ, "PYTHONHASHSEED": "7"})


def test_the_daemon_of_a_forked_command_is_the_daemon(tmp_path: Path) -> None:
    found = []
    for name in ("real", "forked"):
        (tmp_path / name).mkdir()
        home = Home.at(str(tmp_path / f"home of {name}"))
        environment = {**os.environ, "KGD_HOME": home.config, "PYTHONPATH": str(forked.ROOT)}
        words = ["up", "--standalone", "--quiet"]
        try:
            if name == "real":
                subprocess.run([*KGD, *words], cwd=tmp_path / name, env=environment, check=True)
            else:
                assert forked.run(words, tmp_path / name, environment).returncode == 0
            pid = int(str(holder(home.lock)["pid"]))
            streams = [os.readlink(f"/proc/{pid}/fd/{stream}") for stream in range(3)]
            folder = os.readlink(f"/proc/{pid}/cwd")
            daemon = json.loads(forked.run(["status", "--json"], tmp_path, environment).stdout)["daemon"]
            found.append((os.getsid(pid) == pid, folder, streams, daemon["pid"] == pid, daemon["version"]))
        finally:
            end_daemon(home)
    assert found[0] == found[1]


def test_a_killed_process_returns_the_number_of_its_signal(tmp_path: Path) -> None:
    with open(os.devnull, "r+b") as nothing:
        environment = {**os.environ, "KGD_HOME": str(tmp_path / "home"), "PYTHONPATH": str(forked.ROOT)}
        made = forked.start(["--foreground"], tmp_path, environment, [nothing.fileno()] * 3, program=forked.SERVE)
    made.send_signal(signal.SIGKILL)
    assert made.wait(60) == -signal.SIGKILL


def test_a_forked_parser_answers_as_a_started_one_and_ends_when_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_text("def f(): pass\n")
    found = []
    for name in ("forked", "started"):
        if name == "started":
            monkeypatch.setattr(child_process, "subprocess", subprocess)
        index = CodeIndex(tmp_path / f"{name}.sqlite", VERSION)
        parser = ChildProcess((*code_index_process.PROGRAM, str(tmp_path / f"{name}.sqlite"), str(tmp_path)), "it")
        order = {"read": [["a.py", "file", "1"]]}
        found.append((parser.ask(order), [symbol.name for symbol in index.symbols("a.py")]))
        is_forked = b"tests.forked" in Path(f"/proc/{parser.pid}/cmdline").read_bytes()
        parser.end()
        index.close()
        assert is_forked == (name == "forked")
        assert not Path(f"/proc/{parser.pid}").exists()
    assert found[0] == found[1]


def test_a_forked_parser_that_does_not_end_in_time_can_be_killed() -> None:
    parser = forked.Parser(["a.sqlite", "/"], None)
    with pytest.raises(subprocess.TimeoutExpired):
        parser.wait(0.01)  # it waits for orders
    assert forked.PARSER not in children().values(), "tests that kill parsers spare the process that forks them"
    parser.kill()
    assert parser.wait() == -signal.SIGKILL
    for stream in (parser.stdin, parser.stdout):
        stream.close()
