"""The cost of the command line, and its generated pages."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from kgd.cli import reference
from kgd.cli.commands import VERBS
from kgd.cli.reference import page
from tests.cli.conftest import Kgd, on_terminal
from tests.daemon.conftest import ROOT

DEAR = {"rich", "mcp", "pygit2", "networkx", "pydantic", "ruamel", "asyncio", "sqlite3", "watchdog"}


@pytest.mark.parametrize("words", [["--help"], ["help", "--all"], ["traverse", "--help"], ["status"], ["recall", "x"]])
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


def test_a_line_on_a_terminal_imports_no_console(kgd: Kgd) -> None:
    program = (
        "import sys; from kgd.cli.main import run; run(['status']); print('imported', 'rich.console' in sys.modules)"
    )
    shown = on_terminal([sys.executable, "-P", "-c", program], kgd.directory)
    assert shown.endswith("imported False\n")


@pytest.mark.slow
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


def test_the_page_of_man_is_what_the_table_says() -> None:
    assert (ROOT / "docs/kgd.1").read_text() == reference.man(), "python -m kgd.cli.reference --man > docs/kgd.1"


@pytest.mark.needs("man")
def test_man_reads_its_page_without_a_complaint() -> None:
    environment = {**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8", "MANPAGER": "cat"}
    done = subprocess.run(
        ["man", "--warnings", "-l", str(ROOT / "docs/kgd.1")],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    shown = re.sub(r".\x08", "", done.stdout)
    assert [verb.name for verb in VERBS if verb.group and f"kgd {verb.name}" not in shown] == []
    assert "--max-cost COST" in shown
    assert "EXIT STATUS" in shown


def test_every_command_has_help(kgd: Kgd) -> None:
    everything = kgd("help", "--all")
    assert all(f"  {verb.name} " in everything for verb in VERBS if verb.group)
