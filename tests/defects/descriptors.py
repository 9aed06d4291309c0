"""Descriptors, threads and other things that a machine has few of."""

from __future__ import annotations

from tests.planting import Bug

BUGS = {
    "1-handles-wait-for-the-collector": Bug(
        "only the garbage collector frees a renewed handle",
        "kgd/git/discovery.py",
        "    del repository.branches, repository.references, repository.remotes, repository.submodules\n",
        "",
        (
            "tests/git/test_rollup.py::test_packs_that_were_rolled_up_are_closed",
            "tests/git/test_identity.py::test_a_repository_that_was_opened_for_a_name_is_freed_at_once",
        ),
    ),
    "1-all-packs-open": Bug(
        "every pack ever read stays open",
        "kgd/git/store.py",
        "pygit2.settings.mwindow_file_limit = OPEN_PACKS\n",
        "",
        ("tests/git/test_rollup.py::test_libgit2_keeps_a_bounded_number_of_packs_open",),
    ),
    "1-no-deltas": Bug(
        "packs are rolled up without deltas",
        "kgd/git/pack_upkeep.py",
        '"--window-memory=64m"',
        '"--window=0"',
        ("tests/git/test_rollup.py::test_rolled_up_versions_of_a_large_folder_take_little_more_than_git_needs",),
    ),
    "1-no-names": Bug(
        "versions of one folder among many are rolled up in full",
        "kgd/git/pack_upkeep.py",
        "    _name(ObjectStore(git_dir), names)\n",
        "",
        ("tests/git/test_rollup.py::test_rolled_up_versions_of_many_folders_take_little_more_than_git_needs",),
    ),
    "1-soft-limit": Bug(
        "the soft limit of descriptors stays unchanged",
        "kgd/daemon/process.py",
        "    raise_limit()\n",
        "",
        ("tests/faults/test_descriptors.py::test_the_soft_limit_is_raised_to_the_hard_limit",),
    ),
    "1-no-reserve": Bug(
        "clients are accepted until no descriptor is left",
        "kgd/daemon/endpoint.py",
        "        if shortage := process.shortage():\n",
        '        if shortage := "":\n',
        ("tests/faults/test_descriptors.py::test_clients_are_refused_while_descriptors_are_left_for_writing",),
    ),
    "4-no-inotify-instance": Bug(
        "a workspace does not open without a free inotify instance",
        "kgd/daemon/watch.py",
        "except (OSError, RuntimeError) as error:  # a thread",
        "except ZeroDivisionError as error:  # a thread",
        ("tests/daemon/test_opening.py::test_without_a_free_inotify_instance_folders_are_polled_and_status_says_so",),
    ),
    "4-half-opened": Bug(
        "a partly opened workspace stays open",
        "kgd/daemon/daemon.py",
        "                undo.callback(quietly, workspace.close)\n",
        "",
        ("tests/daemon/test_opening.py::test_an_opening_that_cannot_start_a_thread_leaves_nothing_open",),
    ),
    "4-half-opened-threads": Bug(
        "the derived data of a partly opened workspace is still worked on",
        "kgd/workspace/workspace.py",
        "        opened.callback(self._derived.close)\n",
        "",
        ("tests/daemon/test_opening.py::test_an_opening_that_cannot_start_a_thread_leaves_nothing_open",),
    ),
    "9-parser-in-threads": Bug(
        "another thread may use the parser while a module is read",
        "kgd/symbols/python.py",
        "    gc.disable()\n",
        "",
        ("tests/symbols/test_python.py::test_a_module_is_read_while_something_else_uses_the_parser",),
    ),
}
