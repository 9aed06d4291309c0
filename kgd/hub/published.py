"""This file is where a hub waits until the branch shows what was acknowledged: git clients see nothing else of it."""

from __future__ import annotations

import time

from kgd.git.objects import ObjectId
from kgd.workspace.workspace import Workspace

SECONDS = 2.0
LOOK_SECONDS = 0.01


def wait_for(workspace: Workspace, commit: ObjectId) -> bool:
    """Whether the branch holds the commit; waits for it unless the keeper's work tree stands in the way.

    The commit is durable and served before that, so whoever gives up has lost nothing.
    """
    deadline = time.monotonic() + SECONDS
    while True:
        branch = workspace.store.ref(workspace.layout.branch)
        if branch is not None and workspace.store.is_ancestor(commit, branch):
            return True
        if time.monotonic() > deadline or workspace.health()["publish"].state in ("blocked", "off"):
            return False
        time.sleep(LOOK_SECONDS)
