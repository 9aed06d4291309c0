"""The account that the claims of an ID token describe, and the grants that may give it scopes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.daemon.sign_in import grants_of
from kgd.git.layout import locate
from kgd.oidc import Issuer
from kgd.oidc.id_token import person
from kgd.workspace.workspace import Workspace
from tests.builders import commit_file, new_layout

pytestmark = pytest.mark.requirement("N7")
COMPANY = Issuer("company", "https://login.example.org", "Example Ltd", client_id="kgd")


@pytest.mark.parametrize(
    ("verified", "email"),
    [
        ({}, "ann@example.org"),
        ({"email_verified": True}, "ann@example.org"),
        ({"email_verified": False}, ""),
        ({"email_verified": "false"}, ""),
        ({"email_verified": "False"}, ""),
    ],
)
def test_an_unverified_address_is_not_used(verified: dict[str, Any], email: str) -> None:
    found = person(COMPANY, {"sub": "1", "name": "Ann", "email": "ann@example.org", **verified})
    assert found.email == email


def test_a_workspace_in_place_of_another_grants_nothing(tmp_path: Path) -> None:
    home = Home.at(str(tmp_path / "home"))
    home.prepare()
    layout = new_layout(tmp_path / "fork")  # it is called `ws`
    with closing(Workspace.open(layout, publish=False)) as fork:
        rules = fork.store.read(fork.store.entry(fork.store.tree_of(bytes.fromhex(fork.tip)), "kgd.yaml") or b"")
        grants = 'groups:\n- {group: "company:*", verbs: [read, write, admin]}\n'
        commit_file(fork, "kgd.yaml", rules.decode() + grants)
    for id, count in (("ws", 1), ("another", 0)):
        Path(home.registry).write_text(f"workspaces:\n  {id}:\n    path: {layout.work_tree}\n")
        with closing(Daemon(home, since="", locate=locate, open_workspace=Workspace.open)) as daemon:
            found, are_all = grants_of(daemon, frozenset())
        assert (len(found), are_all) == (count, True)
