"""The registry: a person may edit it at any time, and nothing they wrote is lost or half believed."""

from __future__ import annotations

import os
import threading
from dataclasses import fields
from pathlib import Path

import pytest

from kgd.config import Home
from kgd.config.entries import Entry, Settings, parse, spelled
from kgd.config.registry import RegistryFile
from kgd.errors import InvariantViolation, KgdError

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def file(tmp_path: Path) -> RegistryFile:
    return RegistryFile(Home.at(str(tmp_path)))


def write(file: RegistryFile, text: str) -> None:
    """As an editor does: a new file in the old one's place."""
    Path(f"{file.path}.new").write_text(text)
    os.replace(f"{file.path}.new", file.path)


def test_without_a_file_there_are_no_workspaces_and_the_defaults_hold(file: RegistryFile) -> None:
    assert file.current().entries == {}
    assert file.current().settings == Settings()
    assert file.problem is None


def test_a_registered_workspace_is_there_for_every_reader(file: RegistryFile, tmp_path: Path) -> None:
    file.register(Entry("infra", "/src/with blank: and # more", code="/code", standalone=True))
    again = RegistryFile(Home.at(str(tmp_path))).current().entries
    assert again == {"infra": Entry("infra", "/src/with blank: and # more", code="/code", standalone=True)}


def test_comments_order_and_settings_of_the_person_survive_what_kgd_writes(file: RegistryFile) -> None:
    text = (
        "# mine\nsettings:\n  context_size: 7  # few\n\nworkspaces:\n    # the first\n    b:\n"
        "        path: /b  # here\n        # why\n    a:\n        path: /a\n\n# the end\n"
    )
    write(file, text)
    file.register(Entry("c", "/c"))
    file.register(Entry("b", "/moved"), replace=True)
    file.forget("a")
    assert Path(file.path).read_text() == (
        "# mine\nsettings:\n  context_size: 7  # few\n\nworkspaces:\n    # the first\n    b:\n"
        "        path: /moved  # here\n        # why\n    c:\n      path: /c\n\n# the end\n"
    )
    assert file.current().settings.context_size == 7


def test_the_last_entry_can_go_and_another_come(file: RegistryFile) -> None:
    file.register(Entry("a", "/a"))
    file.forget("a")
    assert file.current().entries == {}
    file.register(Entry("b", "/b"))
    assert list(file.current().entries) == ["b"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("workspaces:\n  a:\n    path: /a\n  a:\n    path: /b\n", 4),
        ("workspaces:\n  a:\n    path: relative\n", 2),
        ("workspaces:\n  a:\n    paht: /a\n", 3),
        ("workspaces:\n  Not An Id:\n    path: /a\n", 2),
        ("workspaces:\n  a: /a\n", 2),
        ("workspaces:\n  a:\n    path: /a\nsettings:\n  context_size: 0\n", 5),
        ("workspaces:\n  a:\n    path: /a\nsettings:\n  context_size: true\n", 5),
        ("workspaces:\n  a:\n    path: /a\nsettings:\n  log_level: loud\n", 5),
        ("workspaces:\n  a:\n    path: /a\nsettings:\n  resolver_url: http://llm.example.org/v1\n", 5),
        ("workspaces:\n  a:\n    path: /a\nsettings:\n  resolver_url: 7\n", 5),
        ("workspaces:\n  a:\n    path: /a\nsettings:\n  resolver_token: a-literal-secret\n", 5),
        ("workspaces:\n  a:\n    path: /a\nother: 1\n", 4),
        ("workspaces: [\n", 2),
        ("workspaces:\n  a: &x\n    path: /a\n", 2),
    ],
    ids=range(14),
)
def test_a_broken_edit_keeps_the_last_good_registry_and_names_the_line(
    file: RegistryFile, text: str, line: int
) -> None:
    file.register(Entry("good", "/good"))
    write(file, text)
    assert list(file.current().entries) == ["good"]
    assert file.problem
    assert file.problem.at == f"workspaces.yaml:{line}"
    with pytest.raises(KgdError):
        file.register(Entry("new", "/new"))
    assert Path(file.path).read_text() == text
    write(file, "workspaces:\n  repaired:\n    path: /repaired\n")
    assert list(file.current().entries) == ["repaired"]
    assert file.problem is None


def test_after_a_restart_the_last_good_registry_still_holds_and_the_whole_path_is_named(tmp_path: Path) -> None:
    home = Home.at(str(tmp_path))
    home.prepare()
    file = RegistryFile(home)
    file.register(Entry("mine", "/mine"))
    write(file, Path(file.path).read_text() + "settings:\n  context_size: 7\n")
    assert file.current().settings.context_size == 7
    write(file, "workspaces: [\n")
    again = RegistryFile(home)
    assert again.current().entries.keys() == {"mine"}
    assert again.current().settings.context_size == 7
    assert again.problem is not None
    assert file.path in str(again.problem)
    with pytest.raises(KgdError, match=file.path):
        again.register(Entry("other", "/other"))
    write(file, "")
    assert RegistryFile(home).current().entries == {}


def test_an_unreadable_copy_of_the_registry_is_ignored(tmp_path: Path) -> None:
    home = Home.at(str(tmp_path))
    home.prepare()
    Path(home.state, "workspaces-good.yaml").mkdir()
    file = RegistryFile(home)
    file.register(Entry("mine", "/mine"))
    again = RegistryFile(home)
    assert (list(again.current().entries), again.problem) == (["mine"], None)


def test_a_registry_that_is_suddenly_empty_is_not_believed(file: RegistryFile) -> None:
    file.register(Entry("good", "/good"))
    write(file, "")
    assert list(file.current().entries) == ["good"]
    assert "empty" in str(file.problem)


def test_a_second_repository_with_a_registered_id_is_refused_with_both_ways_out(file: RegistryFile) -> None:
    file.register(Entry("a", "/one"))
    with pytest.raises(InvariantViolation) as refused:
        file.register(Entry("a", "/two"), is_alive=lambda known: True)
    assert "Use that repository" in refused.value.next
    assert "--replace" in refused.value.next
    assert refused.value.at == "/one"
    file.register(Entry("a", "/two"), replace=True)
    assert file.current().entries["a"].path == "/two"


def test_a_repository_that_moved_registers_again(file: RegistryFile) -> None:
    file.register(Entry("a", "/one"))
    file.register(Entry("a", "/two"), is_alive=lambda known: False)
    assert file.current().entries["a"].path == "/two"


def test_writers_at_the_same_time_lose_no_entry(file: RegistryFile, tmp_path: Path) -> None:
    def add(number: int) -> None:
        RegistryFile(Home.at(str(tmp_path))).register(Entry(f"w{number}", f"/w{number}"))

    writers = [threading.Thread(target=add, args=(number,)) for number in range(12)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert set(file.current().entries) == {f"w{number}" for number in range(12)}


def test_the_example_is_valid_and_shows_every_setting_with_its_default() -> None:
    example = parse((ROOT / "workspaces.example.yaml").read_bytes(), "workspaces.example.yaml")
    assert example.settings == Settings()
    assert {entry.standalone for entry in example.entries.values()} == {True, False}
    text = (ROOT / "workspaces.example.yaml").read_text()
    assert all(f"  {setting.name}: " in text for setting in fields(Settings))
    assert all(f"    {field.name}: " in text for field in fields(Entry) if field.name != "id")


@pytest.mark.slow
def test_every_setting_and_field_is_documented() -> None:
    page = (ROOT / "docs" / "config.md").read_text()
    for setting in fields(Settings):
        allowed, meaning = setting.metadata["allowed"], setting.metadata["meaning"]
        assert f"| `{setting.name}` | {setting.default} | {spelled(allowed)} | {meaning} |" in page
    assert all(f"| `{field.name}` |" in page for field in fields(Entry) if field.name != "id")
