"""Findings in the newest commits of a workspace's code, for `up` and `status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from kgd.code_history.history import CodeHistory
from kgd.tools.nodes import printable

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

NAMED = 20
"""Largest number of commits to name for a finding, newest first."""


class FindingAnswer(TypedDict):
    """A sentence about the code's newest commits. `commits` are some of the `count` commits that support it.

    `chance` is the probability of such a result by chance (Fisher's exact test, before correction).
    """

    what: str
    count: int
    commits: list[str]
    chance: float


def code_findings(workspace: Workspace) -> list[FindingAnswer]:
    """Up to three findings. Takes at most a second for a newly checked-out commit, then none."""
    return [
        {
            "what": printable(one.text),
            "count": len(one.commits),
            "commits": [id[:12] for id in one.commits[:NAMED]],
            "chance": float(f"{one.chance:.2g}"),
        }
        for one in CodeHistory.of(workspace).findings()
    ]
