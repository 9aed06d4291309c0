"""A test that fails beside the others runs once more alone, unless it holds a promise about data or rights."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

SCRIPT = str(ROOT / "scripts/second_chance.py")
ONCE = """
from pathlib import Path

def test_it():
    mark = Path("ran")
    first = not mark.exists()
    mark.touch()
    assert not first
"""
BROKEN_OFF = (
    ONCE
    + """

def test_later():
    raise KeyboardInterrupt
"""
)
ALWAYS = "def test_it(): raise AssertionError\n"
FINE = "def test_it(): pass\n"


def run(folder: Path, room: str, text: str) -> tuple[int, str]:
    """Run a test in this room, and then the script; its exit code and what it said."""
    (folder / "tests" / room).mkdir(parents=True)
    (folder / "tests" / room / "test_one.py").write_text(text)
    ran = subprocess.run([sys.executable, "-m", "pytest", "-q"], cwd=folder, capture_output=True, check=False)
    code = str(ran.returncode or 1)
    done = subprocess.run([sys.executable, SCRIPT, code], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("room", "text", "passes"),
    [
        ("ui", ONCE, True),
        ("ui", ALWAYS, False),
        ("ui", FINE, False),
        ("ui", BROKEN_OFF, False),
        ("faults", ONCE, False),
        ("hubs", ONCE, False),
    ],
)
def test_only_a_test_that_passes_alone_and_holds_no_promise_is_forgiven(
    tmp_path: Path, room: str, text: str, passes: bool
) -> None:
    code, said = run(tmp_path, room, text)
    assert (code == 0) == passes
    assert ("test_one.py" in said) == (text not in (FINE, BROKEN_OFF)), "it is named in either case"


def test_every_room_of_promises_is_there() -> None:
    assert all((ROOT / "tests" / room).is_dir() for room in runpy.run_path(SCRIPT)["PROMISES"])
