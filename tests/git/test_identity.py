"""Who a hand edit is by: the person as their git configuration says, from the nearest place."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kgd.codec.settings import first_files
from kgd.git.identity import person
from kgd.git.layout import create_in_code_repository


def configure(directory: Path, key: str, value: str) -> None:
    subprocess.run(["git", "-C", directory, "config", key, value], check=True)


def test_the_codes_own_identity_counts_and_the_workspaces_own_counts_more(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    layout = create_in_code_repository(tmp_path, "ws", first_files("ws"))
    assert person(layout).name == "Ann Person"
    configure(tmp_path, "user.name", "Ann of this project")
    assert (person(layout).name, person(layout).email) == ("Ann of this project", "ann@example.org")
    configure(layout.work_tree, "user.name", "Ann of this workspace")
    assert person(layout).name == "Ann of this workspace"


def test_who_configured_nothing_is_known_by_login_and_host(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    layout = create_in_code_repository(tmp_path, "ws", first_files("ws"))
    (Path.home() / ".gitconfig").unlink()
    assert "@" in person(layout).email
    assert person(layout).name
