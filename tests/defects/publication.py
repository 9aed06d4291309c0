"""Defects of publication around unclean stops."""

from __future__ import annotations

from tests.planting import Bug

_STOPS = "tests/workspace/publishing/test_unclean_stop.py::"

BUGS = {
    "5-damaged-files": Bug(
        "published files damaged by a power cut stay damaged, or count as edits",
        "kgd/workspace/publishing/flush_and_repair.py",
        "damaged = self._damaged(published) if self._plans else []",
        "damaged: list[Placement] = []",
        (
            f"{_STOPS}test_published_files_lost_in_a_power_cut_are_restored",
            f"{_STOPS}test_created_and_deleted_nodes_are_restored_as_published",
            f"{_STOPS}test_each_of_several_publications_may_be_lost",
        ),
    ),
    "5-no-record": Bug(
        "publications are forgotten before their flush",
        "kgd/workspace/publishing/publication_plan.py",
        "    is_flushed: bool = False\n",
        "    is_flushed: bool = True\n",
        (f"{_STOPS}test_published_files_lost_in_a_power_cut_are_restored",),
    ),
    "5-edits-restored": Bug(
        "an edit of a file published just before an unclean stop is undone",
        "kgd/workspace/publishing/flush_and_repair.py",
        "if is_former or self._is_cut(self._tree.read(path), ids):",
        "if True:",
        (f"{_STOPS}test_an_edit_stays_an_edit_after_an_unclean_stop",),
    ),
    "5-clean-stop": Bug(
        "a clean stop records no flush, so that edits made afterwards are undone",
        "kgd/workspace/publishing/publication.py",
        "            self._flusher.flush()\n            self._plan_folder.flushed",
        "            self._plan_folder.flushed",
        (f"{_STOPS}test_the_same_changes_after_a_clean_stop_are_a_persons",),
    ),
    "5-unreadable-index": Bug(
        "an unreadable git index stays until the next publication",
        "kgd/workspace/publishing/flush_and_repair.py",
        "        if index_file.is_intact(index):\n",
        "        if index.exists():\n",
        (
            f"{_STOPS}test_without_a_former_index_it_is_built_from_the_tip",
            f"{_STOPS}test_an_unreadable_index_is_rebuilt_and_keeps_staged_changes",
        ),
    ),
    "5-old-index": Bug(
        "a git index that a power cut made old again stays old, and the next commit removes nodes",
        "kgd/workspace/publishing/flush_and_repair.py",
        "            if not behind or not _rewritten(index, mine, behind):\n",
        "            if True:\n",
        (f"{_STOPS}test_an_index_that_a_publication_had_replaced_is_updated_and_keeps_staged_changes",),
    ),
    "5-lock-brought-back": Bug(
        "an index lock that a power cut brought back blocks publication until a person removes it",
        "kgd/workspace/publishing/publish_steps.py",
        "    elif plan_folder.took(lock):\n        lock.unlink()\n",
        "",
        (f"{_STOPS}test_an_index_lock_that_a_power_cut_brought_back_is_removed",),
    ),
    "5-staged": Bug(
        "a rebuilt index loses staged changes",
        "kgd/workspace/publishing/flush_and_repair.py",
        "elif not any(self._follow(plan, published, mine) for plan in reversed(self._plans)):",
        "elif True:",
        (f"{_STOPS}test_an_unreadable_index_is_rebuilt_and_keeps_staged_changes",),
    ),
    "5-late-edits": Bug(
        "a swapped-out damaged file counts as a late edit",
        "kgd/workspace/publishing/flush_and_repair.py",
        "        self._drop_damaged_slots(versions)\n",
        "",
        (f"{_STOPS}test_a_damaged_displaced_file_is_no_late_edit",),
    ),
    "5-missing-folder": Bug(
        "restoring some files of a missing folder makes the others deletions",
        "kgd/workspace/publishing/publication.py",
        "        if missing := self._edits.missing_folders(tree):\n            self._restore(missing)\n",
        "",
        (f"{_STOPS}test_a_missing_folder_comes_back_whole",),
    ),
    "5-first-files": Bug(
        "files of a new clone that a power cut emptied stay empty",
        "kgd/git/creation.py",
        "            replace(target, data, flush=False)\n",
        "            pass\n",
        ("tests/git/test_layout.py::test_files_that_a_power_cut_took_before_there_was_an_index_are_written_again",),
    ),
    "5-edits-not-flushed": Bug(
        "a person's edit is committed before it is on the disk",
        "kgd/workspace/publishing/publication.py",
        "                self._tree.flush(edit.path)\n",
        "                pass\n",
        (f"{_STOPS}test_a_persons_edit_is_flushed_before_it_is_committed",),
    ),
    "8-overtaken-lock": Bug(
        "after a power cut on btrfs a lock of kgd's own stops every write",
        "kgd/git/integrity.py",
        "    _drop_overtaken_locks(layout, report)\n    if",
        "    if",
        ("tests/git/test_integrity.py::test_a_lock_of_a_move_that_the_ref_has_overtaken_goes",),
    ),
}
