"""Staleness as a person and an agent meet it: the program in its processes, and a real MCP client."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import Machine, git, home, machine, shop
from tests.waiting import WATCHED, until

__all__ = ["home", "machine", "shop"]


@pytest.mark.slow
def test_a_fact_goes_stale_with_the_code_and_is_verified_by_person_and_agent(machine: Machine) -> None:
    machine("up")
    said = machine(
        "remember", "check never looks at the token", "--type", "gotcha", "--cites", "src/auth/session.py#check"
    )
    uri = said.split()[2]
    assert "no stale facts" in machine("stale")
    file = machine.directory / "src/auth/session.py"
    file.write_text("import time\n\n\ndef check():\n    return time.time() > 0\n")
    git(machine.directory, "commit", "-qam", "checks the time")
    commit = git(machine.directory, "rev-parse", "HEAD").strip()
    until(lambda: uri in machine("stale"), WATCHED)
    assert f"check in src/auth/session.py changed in {commit[:10]}" in machine("stale")
    assert "1 stale node;" in machine("status")
    assert "! stale: " in machine("get", uri)
    assert "! stale: " in machine("search", "token")
    with machine.client("agent") as client:
        (node,) = client.call("get", uris=[uri])["nodes"]
        assert node["unverified"]["commit"] == commit
        (hit,) = client.call("search", query="never looks at the token")["hits"]
        assert hit["unverified"] == node["unverified"]
        assert client.call("put", changes=[{"op": "verify", "uri": uri}])["commit"]
        assert "unverified" not in client.call("get", uris=[uri])["nodes"][0]
    assert "no stale facts" in machine("stale")
    file.write_text("def check():\n    return False\n")
    until(lambda: uri in machine("stale"), WATCHED)
    assert "version" in machine("stale", "--verify", uri)
    assert "no stale facts" in machine("stale")
