"""A release: `make release` builds the same bytes in any folder, small and complete, and the wheel runs the README."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from kgd import __version__
from kgd.cli.commands import UNHEALTHY
from kgd.config import Home
from tests.conftest import ROOT
from tests.daemon.conftest import end_daemon
from tests.planting import NOT_OURS
from tests.test_docs import in_shop, walk

LIMIT = 12 << 20


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, so that nothing of this work tree is overwritten."""
    clone = tmp_path_factory.mktemp("release") / "clone"
    shutil.copytree(ROOT, clone, ignore=NOT_OURS)
    return clone


def release(clone: Path) -> dict[str, Path]:
    command = [sys.executable, "scripts/release.py", "--draft"]
    subprocess.run(command, cwd=clone, check=True, capture_output=True)
    return {made.name: made for made in (clone / "dist").iterdir()}


@pytest.fixture(scope="module")
def released(copy: Path) -> dict[str, Path]:
    return release(copy)


@pytest.mark.slow
def test_a_release_is_reproducible_small_and_without_pictures(
    copy: Path, released: dict[str, Path], tmp_path: Path
) -> None:
    names = {
        f"kgd_daemon-{__version__}-py3-none-any.whl",
        f"kgd_daemon-{__version__}.tar.gz",
        "SHA256SUMS",
        "NOTES.md",
        f"kgd-hub-context-{__version__}.tar.gz",
        f"kgd-daemon-{__version__}.cdx.json",
    }
    first = {name: made.read_bytes() for name, made in released.items()}
    assert first.keys() == names
    another = tmp_path / "another folder"
    shutil.copytree(ROOT, another, ignore=NOT_OURS, copy_function=shutil.copy)  # with newer files
    assert {name: made.read_bytes() for name, made in release(another).items()} == first
    assert all(len(data) < LIMIT for data in first.values())
    for line in first["SHA256SUMS"].decode().splitlines():
        digest, name = line.split()
        assert hashlib.sha256(first[name]).hexdigest() == digest
    with zipfile.ZipFile(copy / "dist" / f"kgd_daemon-{__version__}-py3-none-any.whl") as wheel:
        packed = wheel.namelist()
    with tarfile.open(copy / "dist" / f"kgd_daemon-{__version__}.tar.gz") as sdist:
        packed += sdist.getnames()
    with tarfile.open(copy / "dist" / f"kgd-hub-context-{__version__}.tar.gz") as context:
        packed += context.getnames()
        assert {"deploy/Containerfile", "locks/runtime.txt", "kgd/__init__.py"} <= set(context.getnames())
    assert [name for name in packed if name.endswith((".png", ".svg")) and "pictures" in name] == []
    assert [name for name in packed if name.endswith((".png", ".gif", ".jpg"))] == []


@pytest.mark.slow
def test_the_bill_of_materials_lists_every_locked_package_with_hashes(copy: Path, released: dict[str, Path]) -> None:
    bill = json.loads(released[f"kgd-daemon-{__version__}.cdx.json"].read_text())
    listed = {part["name"]: part for part in bill["components"]}
    locked = [line.split("==")[0] for line in (copy / "locks/runtime.txt").read_text().splitlines() if "==" in line]
    assert {*locked, "htmx.org"} <= listed.keys()
    assert all(listed[name]["properties"] for name in locked)


def test_a_release_without_its_section_of_the_changelog_is_refused(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    for file in ("scripts/release.py", "pyproject.toml"):
        (tmp_path / file).write_bytes((ROOT / file).read_bytes())
    (tmp_path / "kgd").mkdir()
    (tmp_path / "kgd" / "__init__.py").write_text('__version__ = "9.9"\n')
    (tmp_path / "CHANGELOG.md").write_text("## Unreleased\n\n- new\n")
    done = subprocess.run(
        [sys.executable, "scripts/release.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "no section '## 9.9'" in done.stderr
    assert not (tmp_path / "dist").exists()


@pytest.mark.slow
@pytest.mark.needs("registry")
@pytest.mark.timeout(300)
def test_the_wheel_in_an_empty_environment_runs_the_commands_of_the_readme(
    copy: Path, released: dict[str, Path], tmp_path: Path
) -> None:
    wheel = released[f"kgd_daemon-{__version__}-py3-none-any.whl"]
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    pip = [str(tmp_path / "venv/bin/python"), "-m", "pip", "install", "-q", "--no-compile", "--require-hashes"]
    subprocess.run([*pip, "-r", copy / "locks/runtime.txt"], check=True)
    subprocess.run([*pip[:-1], "--no-deps", wheel], check=True)
    session = in_shop(tmp_path, tmp_path / "venv/bin")
    found = session.run("python -P -c 'import kgd; print(kgd.__file__)'").stdout
    assert found.startswith(str(tmp_path / "venv")), "the wheel, and not this code"
    try:
        walk("README.md", session)
    finally:
        end_daemon(Home.at(str(tmp_path / "home")))


def test_no_document_tells_anyone_to_install_the_unrelated_package() -> None:
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/*"), *ROOT.glob("kgd/**/*.py")]
    commands = ("pip install kgd", "uv tool install kgd", "pipx install kgd", "uvx kgd", "kgd[")
    found = [
        f"{file.name}: {line.strip()}"
        for file in texts
        for line in file.read_text().splitlines()
        if any(f"{command}" in line.replace(f"{command}-daemon", "") for command in commands)
    ]
    assert found == []


def test_doctor_reports_a_package_that_owns_the_same_import_name(tmp_path: Path) -> None:
    other = tmp_path / "site" / "kgd-1.0.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: kgd\nVersion: 1.0\n")
    environment = {**os.environ, "KGD_HOME": str(tmp_path / "home"), "PYTHONPATH": f"{ROOT}:{tmp_path / 'site'}"}

    def kgd(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", "kgd.cli", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    said = kgd("doctor")
    kgd("down")
    assert said.returncode == UNHEALTHY
    assert "another package, kgd 1.0, is installed over kgd-daemon" in said.stdout
    assert "pip uninstall kgd" in said.stdout
