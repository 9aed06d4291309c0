"""Credentials by reference: found where they are, refused where they stand themselves, and never repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgd.config.credentials import check_reference, secret
from kgd.config.entries import parse
from kgd.errors import Invalid, KgdError, Unauthorized, Unavailable

TOKEN = "kgd_abcdefghijklmnop0123456789"


def test_a_variable_of_the_environment_is_read() -> None:
    assert secret("env:MY_TOKEN", {"MY_TOKEN": f"{TOKEN}\n"}) == TOKEN
    with pytest.raises(Unauthorized, match="no such variable"):
        secret("env:MY_TOKEN", {})


def test_a_file_is_read_if_its_owner_alone_may(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    assert secret(f"file:{file}") == TOKEN
    file.chmod(0o644)
    with pytest.raises(Unavailable) as refused:
        secret(f"file:{file}")
    assert "chmod 600" in refused.value.next
    assert TOKEN not in str(refused.value)
    with pytest.raises(Unauthorized):
        secret(f"file:{tmp_path}/absent")
    with pytest.raises(KgdError):
        secret(f"file:{tmp_path}")


def test_the_keyring_is_asked_through_its_own_program(tmp_path: Path) -> None:
    program = tmp_path / "secret-tool"
    program.write_text(f'#!/bin/sh\n[ "$*" = "lookup service kgd account git.example.org" ] && echo {TOKEN}\n')
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert secret("keyring:git.example.org", environment) == TOKEN
    with pytest.raises(Unauthorized):
        secret("keyring:elsewhere", environment)
    with pytest.raises(Unavailable, match="no keyring"):
        secret("keyring:git.example.org", {"PATH": "/nonexistent"})


@pytest.mark.parametrize(
    "text", [TOKEN, "", "env:", "env:1X", "file:relative", "password:x", f"env:{TOKEN} x", "env:A\nB"]
)
def test_an_invalid_reference_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_reference(text)
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize(
    "line",
    [
        f"token: {TOKEN}",
        f"remote: https://ann:{TOKEN}@example.org/x.git",
        f"remote: https://{TOKEN}@example.org/x.git",
        f"hub: https://x:{TOKEN}@example.org",
    ],
)
def test_a_credential_itself_is_refused_in_the_registry(line: str) -> None:
    path = "" if line.startswith(("remote", "hub")) else "    path: /x\n"
    with pytest.raises(Invalid) as refused:
        parse(f"workspaces:\n  infra:\n{path}    {line}\n".encode(), "workspaces.yaml")
    assert TOKEN not in str(refused.value)
    assert refused.value.at == "workspaces.yaml:2"
    assert "--token" not in refused.value.next, "a file has no options"


@pytest.mark.parametrize(
    "fields",
    [
        "{}",
        "{hub: 'https://h', path: /x}",
        "{hub: 'https://h', remote: 'https://r/x'}",
        "{path: x}",
        "{path: /x, sync: -1}",
        "{path: /x, sync: true}",
        "{path: /x, sync: 1e9}",
        "{path: /x, ref: main}",
        "{path: /x, ref: refs/tags/x}",
        "{remote: 'ext::sh -c x'}",
        "{hub: 'ssh://h/x'}",
        "{hub: /srv/x}",
        "{path: 3}",
        "{path: /x, token: [a]}",
    ],
)
def test_an_entry_that_makes_no_sense_is_refused_with_its_line(fields: str) -> None:
    with pytest.raises(KgdError) as refused:
        parse(f"workspaces:\n  infra: {fields}\n".encode(), "workspaces.yaml")
    assert "workspaces.yaml:2" in refused.value.at


def test_entries_of_others_need_no_path() -> None:
    text = b"""\
workspaces:
  a:
    remote: git@example.org:team/a.git
    ref: refs/kgd/main
    sync: 0
  b:
    hub: https://kgd.example.org
    token: keyring:kgd.example.org
  c:
    path: /src/c
    remote: https://example.org/c.git
    token: env:C
"""
    entries = parse(text, "workspaces.yaml").entries
    assert (entries["a"].remote, entries["a"].ref, entries["a"].sync) == (
        "git@example.org:team/a.git",
        "refs/kgd/main",
        0,
    )
    assert (entries["b"].hub, entries["b"].path) == ("https://kgd.example.org", "")
    assert entries["c"].token == "env:C"
