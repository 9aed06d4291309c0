"""Defects of history: objects that a gc takes, refs that are lost, and what a kill or a hand leaves."""

from __future__ import annotations

from tests.planting import Bug

_TIDYING = "tests/sync/test_tidying.py::"

BUGS: dict[str, Bug] = {
    "2-existence-is-proof": Bug(
        "an object that is here without a ref is merged as it lies there",
        "kgd/git/remote.py",
        "return copied(self._home, self._scratch, wanted, haves)",
        "return Incoming(scratch_repository(self._scratch), self._home, wanted)",
        (
            f"{_TIDYING}test_what_a_killed_round_left_is_not_merged_from_under_a_running_repack",
            f"{_TIDYING}test_a_proposal_that_is_here_already_is_not_listed_from_under_a_running_repack",
        ),
    ),
    "2-same-pack": Bug(
        "a pack that is here already is relied on, though a gc may have listed it",
        "kgd/git/incoming.py",
        """            while there.with_suffix(".idx").exists() or there.with_suffix(".pack").exists():
""",
        """            if there.with_suffix(".idx").exists():
                continue
            while there.with_suffix(".pack").exists():
""",
        (f"{_TIDYING}test_what_a_killed_round_left_is_not_merged_from_under_a_running_repack",),
    ),
    "2-half-pruned": Bug(
        "a commit whose files were pruned stops the sync",
        "kgd/git/remote.py",
        "        with contextlib.suppress(GitFailed):\n            return copied(",
        "        with contextlib.nullcontext():\n            return copied(",
        (f"{_TIDYING}test_a_commit_whose_files_a_prune_has_taken_is_fetched_again",),
    ),
}
