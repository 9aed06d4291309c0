"""The shared registry of an organisation, and invalid edits of it and of the own registry."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from kgd.config.entries import Entry, Settings, parse, parse_shared
from kgd.errors import KgdError
from tests.across.sites import Site, node

MakeSite = Callable[[str], Site]

SHARED = """\
workspaces:
  billing:
    remote: https://git.example.org/billing/knowledge.git
  payments:
    hub: https://kgd.example.org
"""


def follow(here: Site, address: Path) -> None:
    path = Path(here.home.registry)
    path.write_text(f"registry: {address}\n" + (path.read_text() if path.exists() else ""))
    here.daemon.organisation.refresh()


def degraded(here: Site) -> str:
    """The degraded modes, except for the hubs of the registry, which do not exist."""
    return "\n".join(one for one in here.ask("status")["degraded"] if not one.startswith("hub "))


def repository(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "workspaces.yaml").write_text(text)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "registry"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    return folder


def test_the_organisation_s_file_names_workspaces_and_own_entries_win(site: MakeSite, tmp_path: Path) -> None:
    here = site("here")
    here.up("payments", node("concept://payments/own"))
    shared = tmp_path / "shared.yaml"
    shared.write_text(SHARED)
    follow(here, shared)
    registry = here.daemon.registry.current()
    assert registry.entries["billing"].remote == "https://git.example.org/billing/knowledge.git"
    assert registry.entries["payments"].path
    assert not registry.entries["payments"].hub
    assert registry.shared == {"billing"}
    assert not degraded(here)


def test_the_shared_registry_may_come_from_a_git_repository(site: MakeSite, tmp_path: Path) -> None:
    here = site("here")
    source = repository(tmp_path / "registry", SHARED)
    follow(here, source)
    assert here.daemon.workspace_ids() == ["billing", "payments"]
    (source / "workspaces.yaml").write_text(SHARED.replace("billing", "invoices"))
    subprocess.run(["git", "-C", str(source), "commit", "-qam", "renamed"], check=True)
    here.daemon.organisation.refresh()
    assert here.daemon.workspace_ids() == ["invoices", "payments"]


def test_an_unreachable_registry_keeps_the_last_good_copy_and_status_reports_it(site: MakeSite, tmp_path: Path) -> None:
    here = site("here")
    source = repository(tmp_path / "registry", SHARED)
    follow(here, source)
    source.rename(tmp_path / "away")
    here.daemon.organisation.refresh()
    assert here.daemon.workspace_ids() == ["billing", "payments"]
    assert "organisation's registry" in degraded(here)
    assert "last good version is used" in degraded(here)
    (tmp_path / "away").rename(source)
    here.daemon.organisation.refresh()
    assert not degraded(here)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("workspaces: [", "workspaces.yaml:1"),
        (SHARED + "  evil:\n    path: /etc\n", "'path'"),
        (SHARED + "  evil:\n    hub: https://evil.example.org\n    token: file:/home/ann/.ssh/id_ed25519\n", "'token'"),
        (SHARED + "settings:\n  http_port: 80\n", "'settings'"),
        (SHARED + "registry: https://evil.example.org/x.git\n", "'registry'"),
        ("# nothing\n", "empty now"),
    ],
)
def test_an_invalid_shared_registry_is_refused(site: MakeSite, tmp_path: Path, text: str, said: str) -> None:
    here = site("here")
    shared = tmp_path / "shared.yaml"
    shared.write_text(SHARED)
    follow(here, shared)
    shared.write_text(text)
    here.daemon.organisation.refresh()
    assert here.daemon.workspace_ids() == ["billing", "payments"]
    assert said in degraded(here)


def test_an_invalid_edit_of_the_own_registry_keeps_the_last_good_copy_and_names_the_line(site: MakeSite) -> None:
    here = site("here")
    here.up("shop", node("concept://shop/a"))
    path = Path(here.home.registry)
    good = path.read_text()
    path.write_text(good + "    surprise: 1\n")
    assert here.daemon.workspace_ids() == ["shop"]
    assert f"workspaces.yaml:{len(good.splitlines()) + 1}" in degraded(here)
    path.write_text("")
    assert here.daemon.workspace_ids() == ["shop"]
    assert "empty now" in degraded(here)
    path.write_text(good)
    assert not degraded(here)


def test_a_shared_registry_cannot_name_a_credential() -> None:
    with pytest.raises(KgdError, match="token"):
        parse_shared(b"workspaces:\n  a:\n    hub: https://h.example.org\n    token: env:SECRET\n")


@pytest.mark.requirement("B4")
def test_the_example_shows_every_supported_field() -> None:
    example = Path(__file__).resolve().parents[2] / "workspaces.example.yaml"
    found = parse(example.read_bytes(), "workspaces.yaml")
    assert found.organisation
    assert {bool(one.path) for one in found.entries.values()} == {True, False}
    shown = example.read_text()
    assert all(f"{field.name}:" in shown for field in (*fields(Settings), *fields(Entry)) if field.name != "id")
