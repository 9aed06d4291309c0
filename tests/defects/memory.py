"""What a daemon holds in memory and on the disk after a long time."""

from __future__ import annotations

from tests.planting import Bug

BUGS = {
    "1-repository-for-each-write": Bug(
        "each write leaves a repository open that only the garbage collector frees",
        "kgd/git/layout.py",
        "            usual = open_bare(outer).config\n",
        "            usual = pygit2.Repository(str(outer), pygit2.enums.RepositoryOpenFlag.BARE).config\n",
        ("tests/git/test_identity.py::test_a_repository_that_was_opened_for_a_name_is_freed_at_once",),
    ),
    "1-memory-kept": Bug(
        "memory of a burst of changes stays with the process",
        "kgd/workspace/repository.py",
        "            give_memory_back()\n",
        "",
        ("tests/workspace/test_upkeep.py::test_memory_of_a_burst_of_changes_is_given_back",),
    ),
    "1-changes-missed": Bug(
        "changes during a scan of the packs do not count: their memory stays for a minute or more",
        "kgd/workspace/repository.py",
        "        return QUIET_SECONDS if",
        "        self._seen = self._flushes\n        return QUIET_SECONDS if",
        ("tests/workspace/test_upkeep.py::test_memory_of_changes_during_a_roll_up_is_given_back",),
    ),
    "1-answers-as-objects": Bug(
        "each write leaves a few hundred bytes for its answer",
        "kgd/workspace/served.py",
        '_ANSWER = struct.Struct("<I?20s")',
        '_ANSWER = struct.Struct("<I?20s400x")',
        (
            "tests/workspace/history/test_sent.py::test_the_answers_to_twenty_thousand_writes_take_less_than_two_megabytes",
        ),
    ),
    "1-packs-shared": Bug(
        "a new object handle keeps the pack indexes and delta bases of its predecessor",
        "kgd/git/store.py",
        '"" if self._ending else "/."',
        '""',
        ("tests/git/test_rollup.py::test_packs_that_stay_are_let_go_too",),
    ),
    "1-roll-up-listed-here": Bug(
        "a large roll-up takes 60 MB of the daemon for a moment, and the heaps keep some of it",
        "kgd/git/pack_upkeep.py",
        "<= LISTED_HERE:",
        "<= LISTED:",
        ("tests/git/test_rollup.py::test_a_large_roll_up_is_listed_in_another_process",),
    ),
    "1-deltas-of-small-packs": Bug(
        "larger packs keep the full objects of small packs without deltas",
        "kgd/git/pack_upkeep.py",
        '"--no-reuse-delta", ',
        "",
        ("tests/git/test_rollup.py::test_all_packs_of_many_flushes_take_at_any_time_about_what_they_need",),
    ),
    "1-small-packs-wait": Bug(
        "flushes without deltas wait until there are twenty, however large",
        "kgd/git/pack_upkeep.py",
        "        if level == 0 and sum(",
        "        if level < 0 and sum(",
        ("tests/git/test_rollup.py::test_all_packs_of_many_flushes_take_at_any_time_about_what_they_need",),
    ),
}
