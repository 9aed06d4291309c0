"""Joining a hub: the stored token, the registered workspaces, and no changes if the hub refuses."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from kgd.config.credentials import drop, keep, secret
from kgd.errors import KgdError, NotFound, Unauthorized
from tests.across.counter import Counter, always, http
from tests.across.sites import Hub, Site, names, node

MakeSite = Callable[[str], Site]
MakeHub = Callable[[Site], Hub]


@pytest.fixture
def infra(site: MakeSite, hub: MakeHub) -> Hub:
    there = site("there")
    there.up("infra", node("concept://infra/keys"))
    return hub(there)


def test_joining_keeps_the_token_registers_the_workspaces_and_names_the_caller(site: MakeSite, infra: Hub) -> None:
    here, token = site("here"), infra.token(["infra"])
    here.up("shop", node("concept://shop/a", ("concept://infra/keys", 0.5)))
    found = here.ask("join", url=f"{infra.url}/", token=f"{token}\n")
    assert (found["registered"], found["kept"]) == (["infra"], [])
    assert found["principal"]["name"] == "reader"
    assert found["principal"]["scopes"] == [{"workspace": "infra", "verbs": ["read"], "paths": ["/**"]}]
    assert token not in repr(found)
    kept = Path(found["token"].removeprefix("file:"))
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert secret(found["token"]) == token
    assert token not in Path(here.home.registry).read_text()
    assert names(here.ask("traverse", start=["concept://shop/a"])) == ["shop/a", "infra/keys"]
    (hub,) = here.ask("whoami")["hubs"]
    assert hub["principal"]["name"] == "reader"
    assert here.ask("join", url=infra.url, token=token)["registered"] == ["infra"]


def test_leaving_forgets_token_and_workspaces(site: MakeSite, infra: Hub) -> None:
    here = site("here")
    kept = here.ask("join", url=infra.url, token=infra.token(["infra"]))["token"].removeprefix("file:")
    left = here.ask("leave", url="infra")
    assert (left["left"], left["forgotten"]) == (["infra"], True)
    assert not Path(kept).exists()
    assert here.daemon.workspace_ids() == []
    with pytest.raises(NotFound):
        here.ask("leave", url=infra.url)


def test_a_token_that_the_hub_refuses_changes_nothing(site: MakeSite, infra: Hub) -> None:
    here, token = site("here"), infra.token(["infra"])
    middle = len(token) - 4  # the last character has bits that do not count
    wrong = f"{token[:middle]}{'a' if token[middle] != 'a' else 'b'}{token[middle + 1 :]}"
    for given, why in (
        (wrong, "mistyped.*Copy the whole token"),
        ("", "needs a token"),
        ("nonsense", "not a kgd token"),
    ):
        with pytest.raises(Unauthorized, match=why):
            here.ask("join", url=infra.url, token=given)
    assert here.daemon.workspace_ids() == []
    assert not (Path(here.home.state) / "tokens").exists()


def test_a_revoked_token_is_refused_at_once_and_reported(site: MakeSite, infra: Hub) -> None:
    here = site("here")
    here.up("shop", node("concept://shop/a", ("concept://infra/keys", 0.5)))
    here.ask("join", url=infra.url, token=infra.token(["infra"]))
    id = here.ask("whoami")["hubs"][0]["principal"]["id"]
    infra.site.ask("token_revoke", id=id)
    (link,) = here.ask("traverse", start=["concept://shop/a"])["broken_links"]
    assert (link["reason"], link["workspace"]) == ("forbidden", "infra")
    assert "kgd join" in here.ask("whoami")["hubs"][0]["problem"]


def test_status_and_doctor_report_a_revoked_token_before_any_other_call(site: MakeSite, infra: Hub) -> None:
    here = site("here")
    here.up("shop")
    here.ask("join", url=infra.url, token=infra.token(["infra"]))
    infra.site.ask("token_revoke", id=here.ask("whoami")["hubs"][0]["principal"]["id"])
    told = here.ask("status", workspace="shop")
    assert told["health"] == "degraded"
    assert any(text.startswith(f"hub {infra.url}") for text in told["degraded"])
    assert not here.ask("doctor", workspace="shop")["ok"]


def test_status_and_doctor_report_each_token_of_a_hub(site: MakeSite, infra: Hub) -> None:
    here = site("here")
    here.up("shop")
    here.know_hub(infra, "infra")
    here.know("later", hub=infra.url, token="env:KGD_NO_SUCH_TOKEN")
    told = here.ask("status", workspace="shop")["degraded"]
    assert any(text.startswith(f"hub {infra.url}") for text in told)
    checks = here.ask("doctor", workspace="shop")["checks"]
    assert [one["state"] for one in checks if one["name"] == f"hub {infra.url}"] == ["warning", "ok"]


def test_a_missing_folder_is_reported_by_doctor_and_does_not_degrade_other_workspaces(site: MakeSite) -> None:
    here = site("here")
    here.up("shop")
    gone = here.up("gone").layout.folder
    here.ask("status", workspace="shop")
    shutil.rmtree(gone)
    (found,) = [one for one in here.ask("doctor", workspace="shop")["checks"] if one["name"] == "gone"]
    assert found["state"] == "error"
    assert not any("gone" in one for one in here.ask("status", workspace="shop")["degraded"])


def test_an_own_workspace_of_the_same_id_stays(site: MakeSite, infra: Hub) -> None:
    here = site("here")
    here.up("infra", node("concept://infra/mine"))
    found = here.ask("join", url=infra.url, token=infra.token(["infra"]))
    assert found["registered"] == []
    assert [one["id"] for one in found["kept"]] == ["infra"]
    assert "token" not in found, "nothing here would use it"
    assert not (Path(here.home.state) / "tokens").exists()
    assert here.daemon.registry.current().entries["infra"].path


def test_an_unused_token_can_be_forgotten(site: MakeSite, infra: Hub) -> None:
    here = site("here")
    kept = Path(here.ask("join", url=infra.url, token=infra.token(["infra"]))["token"].removeprefix("file:"))
    with pytest.raises(NotFound):
        here.ask("leave", url="http://127.0.0.1:1")
    here.daemon.registry.forget("infra")  # as an edit of the file does
    left = here.ask("leave", url=infra.url)
    assert (left["left"], left["forgotten"], kept.exists()) == ([], True, False)
    with pytest.raises(NotFound):
        here.ask("leave", url=infra.url)


def test_joining_an_invalid_hub_is_refused(site: MakeSite) -> None:
    here = site("here")
    answers = (
        b'{"workspaces": ["../../etc", "ok"], "principal": 7}',
        b'{"workspaces": "all"}',
        b"[]",
        b"<html>",
        b'{"workspaces": []}',
    )
    for body in answers:
        with Counter(always(http("200 OK", body))) as server, pytest.raises(KgdError):
            here.ask("join", url=server.url, token="kgd_x")
    assert here.daemon.workspace_ids() == []


def test_a_working_keyring_keeps_the_token_and_a_broken_keyring_is_skipped(tmp_path: Path) -> None:
    programs, held = tmp_path / "bin", tmp_path / "held"
    programs.mkdir()
    tool = programs / "secret-tool"
    tool.write_text(f'#!/bin/sh\ncase "$1" in store) cat > {held};; lookup) cat {held};; clear) rm {held};; esac\n')
    tool.chmod(0o755)
    env = {"PATH": f"{programs}:/usr/bin:/bin"}
    reference = keep(str(tmp_path / "state"), "hub.example.org:443", "kgd_secret", env)
    assert reference == "keyring:hub.example.org:443"
    assert secret(reference, env) == "kgd_secret"
    assert not (tmp_path / "state").exists()
    assert drop(str(tmp_path / "state"), reference, env)
    assert not held.exists()
    tool.write_text("#!/bin/sh\nexit 1\n")
    assert keep(str(tmp_path / "state"), "hub.example.org:443", "kgd_secret", env).startswith("file:")


def test_a_token_file_of_the_user_is_not_deleted_with_a_hub(tmp_path: Path) -> None:
    own = tmp_path / "token"
    own.write_text("x")
    assert not drop(str(tmp_path / "state"), f"file:{own}")
    assert own.exists()
