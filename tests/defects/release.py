"""Defects of packages, upgrades and uninstalling."""

from tests.planting import Bug

BUGS = {
    "29-clash": Bug(
        "`kgd doctor` does not see the unrelated package",
        "kgd/tools/workspaces/status.py",
        '        other = metadata.version("kgd")\n',
        "        raise metadata.PackageNotFoundError\n",
        ("tests/release/test_package.py::test_doctor_reports_a_package_that_owns_the_same_import_name",),
    ),
    "29-name": Bug(
        "the unit of the hub installs the unrelated package",
        "deploy/kgd-hub.service",
        "pip install .",
        "pip install kgd",
        ("tests/release/test_package.py::test_no_document_tells_anyone_to_install_the_unrelated_package",),
    ),
    "40-newer-tokens": Bug(
        "a downgrade calls newer tokens damaged",
        "kgd/index/hub_state.py",
        "if application == APPLICATION and version > SCHEMA_VERSION:",
        "if False:",
        (
            "tests/release/test_upgrade.py::"
            "test_a_downgrade_names_the_tokens_that_it_cannot_read_and_leaves_them[kgd-0.1.0]",
        ),
    ),
    "41-pictures": Bug(
        "pictures are part of the package",
        "pyproject.toml",
        'exclude = ["/docs/pictures"]',
        "exclude = []",
        ("tests/release/test_package.py::test_a_release_is_reproducible_small_and_without_pictures",),
    ),
    "42-datagram": Bug(
        "the command line sends a datagram to another machine",
        "kgd/client/connection.py",
        "        if sock is None:\n",
        "        with contextlib.suppress(OSError):\n"
        '            socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"", ("192.0.2.7", 9))\n'
        "        if sock is None:\n",
        ("tests/release/test_quiet.py::test_a_full_session_connects_to_no_other_machine",),
    ),
    "42-uninstall-processes": Bug(
        "`kgd mcp` outlives an uninstalled kgd",
        "kgd/client/pump.py",
        "        if start.is_uninstalled(self._home):\n            self._is",
        "        if False:\n            self._is",
        (
            "tests/release/test_quiet.py::"
            "test_uninstalling_removes_every_process_credential_and_file_outside_the_repositories",
        ),
    ),
    "42-uninstall-credentials": Bug(
        "tokens stay in the keyring after uninstalling",
        "kgd/tools/workspaces/setup.py",
        "        join.forget_all(session)\n",
        "        pass\n",
        (
            "tests/release/test_quiet.py::"
            "test_uninstalling_removes_every_process_credential_and_file_outside_the_repositories",
        ),
    ),
}
