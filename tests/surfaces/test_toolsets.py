"""A client sees the usual tools and the toolsets of its start."""

from __future__ import annotations

import pytest

from kgd.cli import commands
from kgd.errors import Invalid
from kgd.tools import TOOLS, TOOLSETS, chosen


def test_the_command_line_knows_every_toolset() -> None:
    assert set(commands.toolsets()) == set(TOOLSETS)


def test_toolsets_come_with_or_without_the_usual_tools() -> None:
    assert chosen("") == TOOLS
    assert set(chosen("tasks, server-memory")) == {*TOOLS, *TOOLSETS["tasks"], *TOOLSETS["server-memory"]}
    assert set(chosen("only:tasks")) == set(TOOLSETS["tasks"])


def test_an_unknown_toolset_is_refused_by_name() -> None:
    with pytest.raises(Invalid, match="no toolset 'nonsense'"):
        chosen("tasks,nonsense")
