"""Defects of the registry, of submissions and of what a sync counts."""

from __future__ import annotations

from tests.planting import Bug

_PLACES = "tests/across/test_places.py::"

BUGS = {
    "11-write-elsewhere": Bug(
        "an entry reaches whatever workspace is at its path",
        "kgd/daemon/daemon.py",
        "        if found.id != entry.id:\n            raise misnamed(entry, found.id)\n",
        "",
        (f"{_PLACES}test_an_entry_at_the_path_of_another_workspace_reaches_nothing",),
    ),
    "11-mismatch-unreported": Bug(
        "neither status nor doctor compares the ids",
        "kgd/daemon/places.py",
        "not in (None, entry.id)",
        "is False",
        (f"{_PLACES}test_such_an_entry_is_reported_by_doctor_status_and_up",),
    ),
    "11-id-taken-by-mistake": Bug(
        "an entry that leads to another workspace keeps its id from the right one",
        "kgd/daemon/places.py",
        "            return self.id_at(entry) == entry.id\n",
        "            return self.id_at(entry) is not None\n",
        (
            f"{_PLACES}test_a_second_workspace_may_take_the_id_that_an_entry_gave_to_another_one",
            f"{_PLACES}test_an_entry_of_another_workspace_does_not_keep_the_others_from_being_removed",
        ),
    ),
    "11-not-cloned": Bug(
        "an empty path with a remote becomes a new workspace",
        "kgd/tools/setup.py",
        "elif entry is not None and clones.remote_of(entry):",
        "elif False:",
        (
            f"{_PLACES}test_up_clones_what_the_registry_has_a_remote_for",
            f"{_PLACES}test_a_code_repository_whose_entry_has_a_remote_gets_that_workspace",
        ),
    ),
    "11-clone-in-outer-repository": Bug(
        "an empty folder inside a code repository is not cloned into",
        "kgd/tools/setup.py",
        "entry.standalone or clones.is_free(entry, directory)",
        "entry.standalone",
        (f"{_PLACES}test_an_empty_folder_inside_a_code_repository_is_cloned_into_itself",),
    ),
    "11-stale-copy": Bug(
        "a copy that was open before is written to after the registry named another",
        "kgd/daemon/daemon.py",
        "if one.id == id and place == (entry.path or str(one.layout.work_tree)):",
        "if one.id == id:",
        (f"{_PLACES}test_after_the_registry_names_another_copy_nothing_is_written_to_the_first",),
    ),
    "11-code-ignored": Bug(
        "`code` of an entry has no effect",
        "kgd/daemon/places.py",
        "return layout if layout.code_tree or not entry.code else replace(layout, code_tree=Path(entry.code))",
        "return layout",
        (f"{_PLACES}test_the_example_registry_works_as_it_is_written",),
    ),
}
