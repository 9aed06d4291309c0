"""Defects of history: objects that a gc takes, refs that are lost, and what a kill or a hand leaves."""

from __future__ import annotations

from tests.planting import Bug

_REFS = "tests/workspace/tip/test_lost_refs.py::"
_TIDYING = "tests/sync/test_tidying.py::"

BUGS: dict[str, Bug] = {
    "2-two-tries": Bug(
        "an object is given up after two attempts, though a gc beside the daemon may move its pack again",
        "kgd/git/store.py",
        "READ_AGAIN_AFTER = (0.0, 0.0, 0.01, 0.05, 0.2, 0.6)",
        "READ_AGAIN_AFTER = (0.0,)",
        ("tests/git/test_store.py::test_an_object_whose_pack_cannot_be_read_is_tried_seven_times",),
    ),
    "2-existence-is-proof": Bug(
        "an object without a ref is merged unchecked",
        "kgd/git/remote.py",
        "return copied(self._home, self._scratch, wanted, haves)",
        "return Incoming(scratch_repository(self._scratch), self._home, wanted)",
        (
            f"{_TIDYING}test_the_packs_of_a_killed_round_are_not_merged_under_a_running_repack",
            f"{_TIDYING}test_a_proposal_that_is_here_already_is_not_listed_from_under_a_running_repack",
        ),
    ),
    "2-same-pack": Bug(
        "an existing pack is trusted, though a gc may have listed it",
        "kgd/git/pack.py",
        "    there = _unused(pack_dir / stem.name)\n",
        """    there = pack_dir / stem.name
    if there.with_suffix(".idx").exists():
        return there
    there = _unused(there)
""",
        (f"{_TIDYING}test_the_packs_of_a_killed_round_are_not_merged_under_a_running_repack",),
    ),
    "2-expired-roll-up": Bug(
        "a multi-pack-index of the moment of a roll-up makes git delete the new pack",
        "kgd/git/pack_upkeep.py",
        "        made = pack.place(partial, pack_dir, ROLLED)\n",
        "        made = pack.place(partial, pack_dir, ROLLED)\n        pack.release(made)\n",
        ("tests/git/test_rollup.py::test_a_roll_up_outlives_a_multi_pack_index_of_its_moment",),
    ),
    "2-half-pruned": Bug(
        "a commit whose files were pruned stops the sync",
        "kgd/git/remote.py",
        "        with contextlib.suppress(GitFailed):\n            return copied(",
        "        with contextlib.nullcontext():\n            return copied(",
        (f"{_TIDYING}test_a_commit_whose_files_a_prune_has_taken_is_fetched_again",),
    ),
    "2-hole-unseen": Bug(
        "the history is not checked at a start",
        "kgd/daemon/syncing.py",
        "        self.history.start(whole=self.workspace.recovery.damaged)\n",
        "",
        (f"{_TIDYING}test_a_hole_is_healed_from_a_remote_by_itself",),
    ),
    "2-closed-unhealed": Bug(
        "a workspace whose tip lacks objects is not opened, though a remote has them",
        "kgd/daemon/daemon.py",
        "if not heal_closed(",
        "if True or not heal_closed(",
        (f"{_TIDYING}test_a_hole_is_healed_from_a_remote_by_itself[the tip-with its index]",),
    ),
    "2-applied-twice": Bug(
        "a request id that cannot be looked up counts as new",
        "kgd/workspace/derived/version_cache.py",
        "if commit is None and self.problem:",
        "if False:",
        (f"{_TIDYING}test_with_a_hole_that_no_remote_can_fill_nothing_is_done_twice",),
    ),
    "3-lost-head": Bug(
        "a lost ref is not restored at a start",
        "kgd/git/refs.py",
        "        if (value := read_ref(git_dir, name)) is not None:\n            return value\n",
        "        return read_ref(git_dir, name)\n",
        (
            f"{_REFS}test_a_lost_tip_is_found_again_at_the_next_start",
            f"{_REFS}test_a_tip_lost_under_an_open_workspace_is_restored",
        ),
    ),
    "3-lost-head-file": Bug(
        "a workspace without HEAD or refs is not found, and `kgd up` says to move it away",
        "kgd/git/discovery.py",
        'and ((has_head and (path / "refs").is_dir()) or is_workspace(path))',
        'and has_head and (path / "refs").is_dir()',
        (f"{_REFS}test_a_workspace_without_head_is_found_and_repaired_at_a_start",),
    ),
    "3-head-file-in-use": Bug(
        "a damaged HEAD stops publication until a restart, with advice that git refuses",
        "kgd/workspace/publishing/publication.py",
        "        integrity.repair_head_file(self._host.layout)\n",
        "",
        (f"{_REFS}test_a_damaged_head_is_written_again_under_an_open_workspace",),
    ),
    "3-lost-others": Bug(
        "only the tip is restored when packed-refs is lost",
        "kgd/git/integrity.py",
        "for name in (layout.branch, refs.HEAD, *_lost(git_dir)):",
        "for name in (refs.HEAD,):",
        (
            "tests/git/test_integrity.py::test_a_ref_whose_reflog_is_there_was_lost_and_comes_back",
            f"{_REFS}test_an_idle_publication_restores_a_lost_tip_and_branch",
        ),
    ),
    "8-moved-while-open": Bug(
        "commits left behind by a manual move of the tip are dropped",
        "kgd/workspace/workspace.py",
        "        integrity.keep(self.layout, left, tip)\n",
        "",
        (f"{_REFS}test_a_tip_moved_back_by_hand_loses_no_commit",),
    ),
    "8-moved-while-closed": Bug(
        "commits left behind by a manual move of the tip, made without a daemon, are dropped",
        "kgd/git/integrity.py",
        "    keep_dropped(layout, good.get(refs.HEAD), _checkpoint_time(layout))\n",
        "",
        (
            f"{_REFS}test_a_tip_moved_back_while_nothing_ran_loses_no_commit",
            f"{_REFS}test_a_tip_moved_back_after_a_kill_is_found_in_the_reflog",
        ),
    ),
    "6-half-made": Bug(
        "remains of a killed first up count as the user's files",
        "kgd/git/creation.py",
        "any(not _HALF(file.name) for file in directory.iterdir())",
        "any(directory.iterdir())",
        ("tests/git/test_layout.py::test_a_kill_in_the_first_up_does_not_stop_the_next_one",),
    ),
    "6-half-made-in-code": Bug(
        "remains of a killed first up stay permanently",
        "kgd/git/creation.py",
        "            shutil.rmtree(left, ignore_errors=True)\n",
        "            pass\n",
        (
            "tests/git/test_layout.py::test_a_kill_in_the_first_up_leaves_nothing_in_a_code_repository",
            "tests/git/test_layout.py::test_a_kill_in_the_first_up_does_not_stop_the_next_one",
        ),
    ),
    "7-deleted-and-written-again": Bug(
        "a daemon writes into a repository that is being deleted",
        "kgd/daemon/daemon.py",
        "            if is_workspace(layout.git_dir):\n",
        "            if layout.git_dir.exists():\n",
        ("tests/daemon/test_removed_folder.py::test_a_repository_that_was_deleted_is_not_written_again",),
    ),
    "7-remains": Bug(
        "remains in a deleted repository prevent a new one",
        "kgd/git/creation.py",
        " and not _clear_remains(layout.git_dir):",
        ":",
        ("tests/git/test_layout.py::test_what_a_daemon_left_of_a_deleted_repository_is_no_obstacle",),
    ),
    "7-folder-removed": Bug(
        "a call uses a workspace whose derived folder was removed",
        "kgd/workspace/repository.py",
        "        except FileNotFoundError:\n            return False\n",
        "        except FileNotFoundError:\n            return True\n",
        (
            "tests/daemon/test_removed_folder.py::test_writes_and_publication_go_on",
            "tests/daemon/test_removed_folder.py::test_an_idle_daemon_opens_the_workspace_again",
        ),
    ),
    "8-mode-left-staged": Bug(
        "a change of only the mode does not reach the index",
        "kgd/git/index_file.py",
        "        elif present != new or _mode(mode, entry) != _mode(None, entry):\n",
        "        elif present != new:\n",
        (
            "tests/workspace/publishing/test_publication.py::test_a_committed_executable_bit_that_a_merge_drops_is_not_left_staged",
        ),
    ),
    "8-mode-lost-anew": Bug(
        "a rebuilt index leaves executable files out",
        "kgd/workspace/publishing/publish_steps.py",
        "(entry for entry in files_after if entry.mode.startswith(PLAIN))",
        '(entry for entry in files_after if entry.mode == b"100644")',
        ("tests/workspace/publishing/test_publication.py::test_an_executable_file_stays_in_a_rebuilt_index[garbage]",),
    ),
    "8-stderr-unread": Bug(
        "a log line waits for a reader of standard error",
        "kgd/daemon/process.py",
        "handlers.append(_NonBlockingHandler(sys.stderr.fileno()))",
        "handlers.append(logging.StreamHandler(sys.stderr))",
        ("tests/daemon/test_logs.py::test_a_daemon_whose_standard_error_is_not_read_does_not_wait",),
    ),
}
