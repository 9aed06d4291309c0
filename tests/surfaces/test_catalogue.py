"""Tools are found by name, each in the file that defines it."""

from __future__ import annotations

import subprocess
import sys

from kgd.tools import EVERY, SERVED, TOOLS, TOOLSETS, chosen


def test_every_tool_is_where_the_catalogue_says_and_is_called_so() -> None:
    for catalogue in (EVERY, SERVED, *TOOLSETS.values()):
        assert {name: tool.name for name, tool in catalogue.items()} == {name: name for name in catalogue}


def test_toolsets_come_beside_the_usual_tools_or_in_their_place() -> None:
    assert list(chosen("")) == list(TOOLS)
    assert list(chosen("tasks,apps")) == [*TOOLS, *TOOLSETS["apps"], *TOOLSETS["tasks"]]
    assert list(chosen("only:tasks")) == list(TOOLSETS["tasks"])


def test_a_daemon_starts_without_the_tools_that_nobody_asked_for() -> None:
    program = "import sys, kgd.serve.parts; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    files = {tool.run.__module__ for tool in EVERY.values()}
    assert "kgd.tools.write.put" in files
    assert not files & set(done.stdout.split())
