"""A daemon that is killed while it takes something in goes on where it was; who waits for it may leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.cli.conftest import Kgd, code, kgd, module_home
from tests.waiting import until

__all__ = ["code", "kgd", "module_home"]

pytestmark = pytest.mark.slow

MANY = 60
MORE = 150
"""So many that even a fast machine has not ingested all before the caller leaves."""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return written_down(tmp_path / "library", MANY)


def written_down(made: Path, count: int) -> Path:
    made.mkdir()
    for number in range(count):
        part = f"Part {number} says the same. " * 60
        (made / f"{number:03}.md").write_text(f"# Part {number}\n\n{part}\n\n## More\n\n{part}\n")
    return made


def started(kgd: Kgd, *words: str) -> subprocess.Popen[str]:
    """As at a terminal: where the tests themselves run in the background, what they start would not hear of Ctrl-C."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "kgd.cli", *words],
        cwd=kgd.directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def written(kgd: Kgd) -> int:
    """Asked of git: a program of kgd's for each look would take what the job needs of the machine."""
    words = ["git", "-C", str(kgd.directory / ".kgd"), "rev-list", "--count", "--grep=^ingest ", "refs/kgd/head"]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def has_written_more(kgd: Kgd, before: int) -> bool:
    return written(kgd) > before


def test_a_daemon_that_is_killed_goes_on_where_it_was_and_nothing_is_double(kgd: Kgd, library: Path) -> None:
    daemon = kgd.json("status")["daemon"]["pid"]
    waiting = started(kgd, "ingest", str(library))
    until(lambda: written(kgd) >= 20)
    os.kill(daemon, signal.SIGKILL)
    _, complaint = waiting.communicate(timeout=60)
    assert waiting.returncode == 9, complaint
    done = kgd.json("ingest", str(library))
    assert done["state"] == "done"
    assert done["counts"]["documents_new"] + done["counts"].get("documents_unchanged", 0) >= MANY
    subjects = [commit["message"] for commit in kgd.json("log", "--limit", "200")["commits"]]
    taken = [subject for subject in subjects if subject.startswith("ingest library/")]
    assert len(taken) == len(set(taken)) == MANY
    kgd("fsck")
    tip = kgd.json("status")["workspace"]["tip"]
    assert kgd.json("ingest", str(library))["counts"] == {"documents_unchanged": MANY}
    assert kgd.json("status")["workspace"]["tip"] == tip


def test_a_job_continues_when_its_caller_leaves(kgd: Kgd, tmp_path: Path) -> None:
    library = written_down(tmp_path / "library", MORE)
    for number in range(5):  # on a machine with much to do it may be over before the signal is sent
        uri, before = f"document://shop/again-{number}", written(kgd)
        waiting = started(kgd, "ingest", str(library), "--uri", uri)
        until(partial(has_written_more, kgd, before))
        waiting.send_signal(signal.SIGINT)
        _, said = waiting.communicate(timeout=60)
        if waiting.returncode:
            break
    assert (waiting.returncode, "continues in the daemon" in said) == (130, True)
    until(lambda: all(job["state"] == "done" for job in json.loads(kgd("status", "--json"))["jobs"]), seconds=120)
    assert len(kgd.json("ingest", str(library), "--uri", uri)["counts"]) == 1
