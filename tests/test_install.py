"""`make up` on incomplete machines: one message each, and no partial installation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A clone with the parts that installing reads, in a path with a blank."""
    clone = tmp_path / "a clone"
    for file in ("Makefile", "pyproject.toml", "scripts/install.sh", "scripts/first_walk.py", "locks/runtime.txt"):
        (clone / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, clone / file)
    return clone


def test_tests_of_an_unknown_room_are_refused_with_the_rooms() -> None:
    done = subprocess.run(["make", "-n", "test", "ROOM=nosuch"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no room nosuch. The rooms are: " in done.stderr
    assert " git graph " in done.stderr


def test_an_empty_room_is_refused_instead_of_all_tests_being_run() -> None:
    done = subprocess.run(["make", "-n", "test", "ROOM="], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "ROOM is empty. The rooms are: access across " in done.stderr


def test_a_test_without_its_file_is_refused_with_the_files_of_the_room() -> None:
    command = ["make", "-n", "test", "ROOM=areas::test_x"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "areas::test_x names a test without its file. The files of this room are: " in done.stderr
    assert " test_specification.py " in done.stderr


def test_the_daemon_of_a_clone_without_kgd_is_not_stopped_and_what_installs_kgd_is_named(bare: Path) -> None:
    done = subprocess.run(["make", "down"], cwd=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith("kgd is not installed in this clone. Install it with: make up.  Stop.\n")


@pytest.mark.parametrize(("data", "said"), [("", "*** "), ("DATA=nowhere", "there is no folder nowhere. ")])
def test_a_measurement_without_its_data_is_refused_before_anything_is_installed(
    bare: Path, data: str, said: str
) -> None:
    command = ["make", "bench-retrieval", *filter(None, [data])]
    done = subprocess.run(command, cwd=bare, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{said}bench-retrieval needs the folder with the data sets: make bench-retrieval DATA=DIR." in done.stderr
    assert not (bare / ".venv").exists()


def test_a_room_of_the_workspace_has_its_own_tests() -> None:
    command = ["make", "-n", "test", "ROOM=merging git/test_refs.py::test_x"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert " tests/workspace/merging tests/git/test_refs.py::test_x\n" in done.stdout


@pytest.mark.slow
def test_an_unknown_section_of_the_bench_is_refused_with_the_sections() -> None:
    command = [sys.executable, "-m", "bench", "nosuch"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no section nosuch; the sections are starts, " in done.stderr


def pretended(folder: Path, script: str) -> Path:
    program = folder / "python"
    program.write_text(f'#!/bin/sh\n{script}\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    return program


def make_up(clone: Path, python: object, **environment: str) -> str:
    done = subprocess.run(
        ["make", f"PYTHON={python}", "up"],
        cwd=clone,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert not (clone / ".venv" / ".runtime").exists()
    told = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert len(told) == 2, done.stderr
    return "\n".join(told)


def test_a_missing_python_is_named(bare: Path) -> None:
    assert "there is no program python9" in make_up(bare, "python9")


def test_an_old_python_is_named_with_its_version(bare: Path) -> None:
    old = pretended(bare, '[ "$1" = -V ] && { echo Python 3.9.2; exit; }; exit 1')
    assert "Python 3.11 or newer is needed, and" in (said := make_up(bare, old))
    assert "3.9.2" in said


def test_a_python_without_the_venv_module_gets_the_package_name(bare: Path) -> None:
    without = pretended(bare, 'case "$2" in *ensurepip*) exit 1;; esac')
    assert "apt install python3-venv" in make_up(bare, without)
    assert not (bare / ".venv").exists()


@pytest.mark.slow
def test_without_a_network_the_download_is_named_and_the_log(bare: Path) -> None:
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0", "PIP_NO_CACHE_DIR": "1"}
    said = make_up(bare, sys.executable, PIP_FIND_LINKS="", PIP_CONFIG_FILE=os.devnull, **nowhere)
    assert "the packages could not be downloaded" in said
    assert ".venv/install.log" in said
