"""`kgd verify-history` and `kgd token verify`: the printed result, and the exit code."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from kgd.config import Home
from kgd.index.hub_state import SqliteHubState
from kgd.model.token import AuditEntry
from tests.cli.conftest import Kgd

pytestmark = pytest.mark.requirement("N8")


@pytest.mark.slow
def test_verify_history_counts_the_commits_by_their_state(kgd: Kgd) -> None:
    kgd("put", "concept://shop/signed", "--summary", "Not signed")
    said = kgd("verify-history")
    assert "unsigned" in said
    assert "no signature is bad" in said
    assert "allowed_signers at the tip lists no keys" in said
    answer = kgd.json("verify-history", "--all")
    assert answer["commits"] == len(answer["listed"]) == sum(answer["counts"].values())
    assert kgd.json("verify-history", "--since", "HEAD")["commits"] == 0


@pytest.mark.slow
def test_token_verify_compares_the_log_with_an_export(kgd: Kgd, module_home: Home, tmp_path: Path) -> None:
    kgd("token", "list")  # the daemon creates the file
    place = Path(module_home.state) / "hub.db"
    state = SqliteHubState(place)
    for number in range(5):
        state.note(AuditEntry(1_700_000_000, "old", "put", "shop", f"commit {number}"))
    state.close()
    export = tmp_path / "audit.jsonl"
    export.write_text(kgd("token", "audit"))
    first = next(json.loads(line)["number"] for line in export.read_text().splitlines() if '"hash"' in line)
    said = kgd("token", "verify", str(export))
    assert "are intact; the last hash is" in said
    with sqlite3.connect(place) as db:
        db.execute("UPDATE trail SET detail = 'another' WHERE number = ?", (first + 2,))
    db.close()
    done = kgd.run("token", "verify", str(export))
    assert done.returncode == 12
    assert f"line {first + 2} was changed" in done.stdout
    export.write_text(export.read_text().replace("commit 1", "commit 7"))
    assert f"{export}: line {first + 1} was changed" in kgd.run("token", "verify", str(export)).stdout
    export.write_text("no JSON\n")
    assert "not an export" in kgd.run("token", "verify", str(export)).stderr
