"""Tools are found by name, each in the file that defines it."""

from __future__ import annotations

import subprocess
import sys

from kgd.tools import EVERY, SERVED, TOOLS, TOOLSETS, chosen


def test_every_tool_has_the_module_and_name_of_the_catalogue() -> None:
    for catalogue in (EVERY, SERVED, *TOOLSETS.values()):
        assert {name: tool.name for name, tool in catalogue.items()} == {name: name for name in catalogue}


def test_toolsets_extend_or_replace_the_usual_tools() -> None:
    assert list(chosen("")) == list(TOOLS)
    assert list(chosen("tasks,apps")) == [*TOOLS, *TOOLSETS["apps"], *TOOLSETS["tasks"]]
    assert list(chosen("only:tasks")) == list(TOOLSETS["tasks"])


def test_a_daemon_starts_without_unrequested_tools() -> None:
    program = "import sys, kgd.serve.parts; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    files = {tool.run.__module__ for tool in EVERY.values()}
    assert "kgd.tools.write.put" in files
    assert not files & set(done.stdout.split())
