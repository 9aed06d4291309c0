"""The operator's sign-in configuration: a hub with a mistake in it does not start, and reports the place."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kgd.errors import Invalid
from kgd.oidc import read_configuration
from tests.hub.conftest import new_hub

pytestmark = pytest.mark.requirement("N7")
PEOPLE = {"issuer": "https://login.example.org", "client_id": "kgd"}
PROGRAMS = {"issuer": "https://ci.example.org", "workloads": [{"claims": {"repository": "acme/shop"}, "group": "shop"}]}


def read(**issuers: Any) -> Any:
    return read_configuration({"url": "https://kgd.example.org/", "issuers": issuers}, lambda reference: "secret")


def test_omitted_settings_have_safe_values() -> None:
    found = read(company=PEOPLE, ci=PROGRAMS)
    assert [one.name for one in found.people()] == ["company"]
    company, ci = found.issuers.values()
    assert (company.token_seconds, company.session_seconds) == (900, 30 * 86_400)
    assert company.client_secret == ""
    assert ci.audience == found.url == "https://kgd.example.org"


@pytest.mark.parametrize(
    ("issuer", "at"),
    [
        ({}, "issuer"),
        ({**PEOPLE, "issuer": "http://login.example.org"}, "issuer"),
        ({**PEOPLE, "issuer": "https://user@login.example.org"}, "issuer"),
        ({"issuer": PEOPLE["issuer"]}, ""),
        ({**PEOPLE, "clientid": "x"}, "clientid"),
        ({**PEOPLE, "token_minutes": 0}, "token_minutes"),
        ({**PEOPLE, "token_minutes": 600}, "token_minutes"),
        ({**PEOPLE, "scopes": "openid"}, "scopes"),
        ({**PROGRAMS, "workloads": [{"group": "shop"}]}, "workloads[0]"),
        ({**PROGRAMS, "workloads": [{"claims": {}, "group": "shop"}]}, "workloads[0]"),
        ({**PROGRAMS, "workloads": [{"claims": {"a": "b"}}]}, "workloads[0]"),
        ({**PROGRAMS, "workloads": [{"claims": {"a": ["b"]}, "group": "shop"}]}, "workloads[0].claims"),
    ],
)
def test_a_mistake_is_named_with_its_place(issuer: dict[str, Any], at: str) -> None:
    with pytest.raises(Invalid) as caught:
        read(company=issuer)
    assert caught.value.at == f"issuers.company.{at}".rstrip(".")


@pytest.mark.slow
def test_a_hub_does_not_start_with_a_broken_file(tmp_path: Path) -> None:
    file = tmp_path / "oidc.yaml"
    file.write_text(json.dumps({"url": "https://kgd.example.org", "issuers": {"company": {"issuer": "login"}}}))
    hub = new_hub(tmp_path)
    for words, said in (
        (("--listen", "127.0.0.1:0", "--oidc", str(file)), f"{file}: issuers.company.issuer"),
        (("--listen", "127.0.0.1:0", "--oidc", str(tmp_path / "none")), "No such file"),
        (("--oidc", str(file)), "only on a hub"),
    ):
        command = [sys.executable, "-P", "-m", "kgd.serve", "--foreground", *words]
        done = subprocess.run(command, env=hub.environment, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 2
        assert said in done.stderr


def test_without_pyjwt_a_hub_reports_how_to_install_it(tmp_path: Path) -> None:
    hub = new_hub(tmp_path)
    start = "import sys; sys.modules['jwt'] = None; from kgd.serve.__main__ import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-P", "-c", start, "--listen", "127.0.0.1:0", "--oidc", "any.yaml"]
    done = subprocess.run(command, env=hub.environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "uv tool install '.[oidc]'" in done.stderr
