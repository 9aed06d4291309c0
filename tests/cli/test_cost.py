"""What the command line costs, and that its page says what it is."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kgd.cli.reference import page
from kgd.cli.verbs import VERBS
from tests.cli.conftest import Kgd
from tests.daemon.conftest import ROOT

DEAR = {"mcp", "pygit2", "networkx", "pydantic", "ruamel", "asyncio", "sqlite3", "watchdog"}


@pytest.mark.parametrize("words", [["--help"], ["traverse", "--help"], ["status"], ["recall", "x"]])
def test_neither_help_nor_a_call_to_a_daemon_that_runs_imports_anything_large(kgd: Kgd, words: list[str]) -> None:
    program = (
        "import sys, atexit; from kgd.cli.main import run\n"
        f"atexit.register(lambda: print(*sorted({DEAR!r} & set(sys.modules)), file=sys.stderr))\n"
        f"sys.exit(run({words!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=kgd.directory, capture_output=True, text=True, check=True
    )
    assert done.stderr.split() == []


def test_help_takes_at_most_a_few_times_what_python_takes(kgd: Kgd) -> None:
    """By processor time, children measured in turn, the best of each: other work on the machine does not count."""

    def cost(*words: str) -> float:
        before = os.times()
        subprocess.run([sys.executable, "-P", *words], stdout=subprocess.DEVNULL, check=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    pairs = [(cost("-c", "pass"), cost("-m", "kgd.cli", "--help")) for _ in range(7)]
    assert min(help for _, help in pairs) < 12 * max(0.01, min(floor for floor, _ in pairs))


def test_the_page_is_what_the_table_says() -> None:
    assert (ROOT / "docs" / "cli.md").read_text() == page(), "python -m kgd.cli.reference > docs/cli.md"


def test_every_command_has_help(kgd: Kgd) -> None:
    everything = kgd("--help")
    assert all(f"  {verb.name} " in everything for verb in VERBS if verb.group)
