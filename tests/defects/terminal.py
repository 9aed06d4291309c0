"""Defects of the command line and of installing."""

from tests.planting import Bug

BUGS = {
    "30-review-traceback": Bug(
        "`kgd review` prints a traceback if there is another page",
        "kgd/cli/printing.py",
        "max(map(len, lists), default=0)",
        'max(len(answer[name]) for name in ("commits", "hits", "conflicts") if name in answer)',
        ("tests/cli/test_continued_answers.py::test_a_first_page_is_printed_and_so_is_the_next_one[review]",),
    ),
    "30-no-cursor": Bug(
        "`kgd proposals` and `kgd recall` have pages but no way to the next one",
        "kgd/tools/operations.json",
        '[["--cursor"], {"help": "continue an answer that was cut", "metavar": "CURSOR"}]], "call": "proposals"',
        '[["--json-lines"], {"help": "x", "metavar": "CURSOR"}]], "call": "proposals"',
        ("tests/cli/test_continued_answers.py::test_a_first_page_is_printed_and_so_is_the_next_one[proposals]",),
    ),
    "36-no-arguments": Bug(
        "`kgd` alone is an error",
        "kgd/cli/main.py",
        "    if not argv:\n",
        "    if False:\n",
        ("tests/cli/test_commands.py::test_without_arguments_the_first_commands_are_printed",),
    ),
    "36-fsck-silent": Bug(
        "`kgd fsck` shows no progress",
        "kgd/tools/workspaces/checks.py",
        "check(workspace, session.progress)]",
        "check(workspace)]",
        ("tests/cli/test_waiting.py::test_fsck_shows_which_part_it_checks",),
    ),
    "36-colour": Bug(
        "`kgd status` does not colour an unreadable file",
        "kgd/cli/printing_running.py",
        """say(red(f"  ! {file['path']}:{file['line']}: {file['reason']}"))""",
        """say(f"  ! {file['path']}:{file['line']}: {file['reason']}")""",
        ("tests/cli/test_commands.py::test_an_unreadable_file_is_red_on_a_terminal",),
    ),
    "36-install": Bug(
        "`make up` without the venv module fails in pip's or Python's own words",
        "scripts/install.sh",
        "'import ensurepip, venv'",
        "'pass'",
        ("tests/test_install.py::test_a_python_without_the_venv_module_gets_the_package_name",),
    ),
}
