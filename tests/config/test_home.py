"""Where everything of one person is."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

from kgd.config import SOCKET_PATH_LIMIT, Home

ROOT = Path(__file__).resolve().parent.parent.parent


def test_kgd_home_holds_everything() -> None:
    home = Home.find({"KGD_HOME": "/x", "HOME": "/home/ann"})
    assert (home.registry, home.socket, home.log) == (
        "/x/workspaces.yaml",
        "/x/state/kgd.sock",
        "/x/state/logs/daemon.log",
    )


def test_on_linux_the_xdg_folders_are_followed_and_relative_ones_ignored() -> None:
    home = Home.find({"HOME": "/home/ann", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "rel"}, "linux")
    assert (home.registry, home.state) == ("/c/kgd/workspaces.yaml", "/home/ann/.local/state/kgd")


def test_on_a_mac_they_are_in_the_library() -> None:
    home = Home.find({"HOME": "/Users/ann"}, "darwin")
    assert home.registry == "/Users/ann/Library/Application Support/kgd/workspaces.yaml"
    assert home.log == "/Users/ann/Library/Logs/kgd/daemon.log"


def test_a_long_home_has_a_short_socket_of_its_own() -> None:
    one, two = Home.at("/" + "a" * 200), Home.at("/" + "b" * 200)
    assert one.socket != two.socket
    assert len(one.socket) <= SOCKET_PATH_LIMIT
    assert one.socket == Home.at("/" + "a" * 200).socket


def test_a_folder_named_kgd_in_the_current_directory_is_not_started(tmp_path: Path) -> None:
    """Else a repository could bring its own daemon."""
    (tmp_path / "kgd").mkdir()
    (tmp_path / "kgd" / "__init__.py").write_text("raise SystemExit('not ours')")
    command = Home.at(str(tmp_path / "home")).daemon_command()
    done = subprocess.run(
        [*command, "--help"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "not ours" in done.stderr) == (0, False)


def test_a_state_folder_that_cannot_be_written_is_named_before_a_daemon_starts(tmp_path: Path) -> None:
    """Otherwise the daemon would end with a traceback in its log. The configuration may be read-only."""
    home = Home.at(str(tmp_path / "home"))
    home.prepare()
    os.chmod(home.config, 0o500)
    assert _prepared_without_privileges(home) == ""
    os.chmod(home.state, 0o500)
    assert f"UNAVAILABLE the daemon cannot write into this folder {home.state}" in _prepared_without_privileges(home)


def _prepared_without_privileges(home: Home) -> str:
    """The error of `prepare` in a process in which permissions hold for root too; empty if there is none."""
    program = """if True:
        import sys
        from kgd.config import Home
        from kgd.errors import KgdError
        try:
            Home.at(sys.argv[1]).prepare()
        except KgdError as error:
            print(error.code, error.message, error.at)
    """
    done = subprocess.run(
        [sys.executable, "-c", program, home.config],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=_drop_overrides,
    )
    return done.stdout


def _drop_overrides() -> None:
    if os.geteuid() == 0:
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP; takes effect with exec


def test_importing_the_home_costs_next_to_nothing() -> None:
    dear = "{'typing', 'dataclasses', 'pathlib', 'json', 're', 'ruamel', 'logging', 'hashlib'}"
    program = f"import sys; import kgd.config; print(*sorted({dear} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == []
