"""Defects of publication around unclean stops."""

from __future__ import annotations

from tests.planting import Bug

_STOPS = "tests/workspace/test_unclean_stop.py::"

BUGS = {
    "5-damaged-files": Bug(
        "published files damaged by a power cut stay damaged, or count as edits", "kgd/workspace/healing.py",
        "damaged = self._damaged(published) if self._plans else []", "damaged: list[Placement] = []",
        (f"{_STOPS}test_what_a_power_cut_took_of_a_publication_comes_back",
         f"{_STOPS}test_nodes_come_and_go_as_they_were_published",
         f"{_STOPS}test_each_of_several_publications_may_be_lost"),
    ),
    "5-no-record": Bug(
        "publications are forgotten before their flush", "kgd/workspace/aside.py",
        "    is_flushed: bool = False\n", "    is_flushed: bool = True\n",
        (f"{_STOPS}test_what_a_power_cut_took_of_a_publication_comes_back",),
    ),
    "5-edits-restored": Bug(
        "an edit of a file published just before an unclean stop is undone", "kgd/workspace/healing.py",
        "if is_former or self._is_cut(self._tree.read(path), ids):", "if True:",
        (f"{_STOPS}test_an_edit_stays_an_edit_after_an_unclean_stop",),
    ),
    "5-clean-stop": Bug(
        "a clean stop records no flush, so that edits made afterwards are undone", "kgd/workspace/publication.py",
        "            self._flusher.flush()\n            self._aside.flushed", "            self._aside.flushed",
        (f"{_STOPS}test_the_same_after_a_clean_stop_is_what_a_person_did",),
    ),
    "5-unreadable-index": Bug(
        "an unreadable git index stays until the next publication", "kgd/workspace/healing.py",
        "        if index_file.is_intact(index):\n", "        if index.exists():\n",
        (f"{_STOPS}test_an_index_without_a_former_one_is_built_from_the_tip",
         f"{_STOPS}test_an_index_that_git_cannot_read_is_built_again_and_keeps_what_was_staged"),
    ),
    "5-staged": Bug(
        "a rebuilt index loses staged changes", "kgd/workspace/healing.py",
        "if not any(self._follow(plan, published, mine) for plan in reversed(self._plans)):", "if True:",
        (f"{_STOPS}test_an_index_that_git_cannot_read_is_built_again_and_keeps_what_was_staged",),
    ),
    "5-late-edits": Bug(
        "a swapped-out damaged file counts as a late edit", "kgd/workspace/healing.py",
        "        self._drop_damaged_slots(versions)\n", "",
        (f"{_STOPS}test_what_was_swapped_out_and_damaged_is_no_late_edit",),
    ),
    "5-missing-folder": Bug(
        "restoring some files of a missing folder makes the others deletions", "kgd/workspace/publication.py",
        "        if missing := self._edits.missing_folders(tree):\n            self._restore(missing)\n", "",
        (f"{_STOPS}test_a_missing_folder_comes_back_whole",),
    ),
    "5-first-files": Bug(
        "files of a new clone that a power cut emptied stay empty", "kgd/git/creation.py",
        "            replace(target, data, flush=False)\n", "            pass\n",
        ("tests/git/test_layout.py::test_files_that_a_power_cut_took_before_there_was_an_index_are_written_again",),
    ),
    "5-edits-not-flushed": Bug(
        "a person's edit is committed before it is on the disk", "kgd/workspace/publication.py",
        "                self._tree.flush(edit.path)\n", "                pass\n",
        (f"{_STOPS}test_a_persons_edit_is_flushed_before_it_is_taken",),
    ),
    "8-overtaken-lock": Bug(
        "after a power cut on btrfs a lock of kgd's own stops every write", "kgd/git/integrity.py",
        "    _drop_overtaken_locks(layout, report)\n    if", "    if",
        ("tests/git/test_integrity.py::test_a_lock_of_a_move_that_the_ref_has_overtaken_goes",),
    ),
}  # fmt: skip
