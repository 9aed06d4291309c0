"""A working day of two people as a script: plan, ask, work, record, and verify again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("working_day.sh")


@pytest.mark.slow
@pytest.mark.requirement("A15", "A16", "M5", "M7")
def test_a_fact_of_one_person_reaches_the_next_and_is_verified(tmp_path: Path) -> None:
    programs = str(Path(sys.executable).parent)
    known = {name: os.environ[name] for name in ("HOME", "LC_ALL", "XDG_CONFIG_HOME") if name in os.environ}
    done = subprocess.run(
        ["sh", str(SCRIPT), str(tmp_path / "day")],
        capture_output=True,
        text=True,
        check=False,
        timeout=220,
        env={**known, "PATH": f"{programs}:{os.environ['PATH']}", "GIT_CONFIG_NOSYSTEM": "1"},
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert "known to hold" in done.stdout
