"""Commits whose author or date is nothing that a careful program writes: they come in, and nothing stops answering."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.trees import FILE, Smith
from tests.sync.people import Person, git
from tests.waiting import until

IDENTITIES = {
    "no text": (b"\xff\xfe <x\x01@y> 1700000000 +0000", b""),
    "an older encoding": (b"J\xfcrgen <x@y> 1700000000 +0000", b"encoding ISO-8859-1\n"),
    "an encoding that is none": (b"J\xfcrgen <x@y> 1700000000 +0000", b"encoding unicode_escape\n"),
    "the year 10000": (b"x <x@y> 253402300800 +0000", b""),
    "three million years": (b"x <x@y> 99999999999999 +0000", b""),
    "an absurd zone": (b"x <x@y> 1700000000 -9999", b""),
}


@pytest.fixture
def shared(ann: Person, hub: Path) -> Person:
    ann.put("a", summary="a")
    ann.share(hub, sync=0)
    return ann


def pushed(smith: Smith, name: str, who: bytes, encoding: bytes) -> None:
    blob = smith.blob(f"uri: concept://infra/{name}\nsummary: wombat\n".encode())
    tree = smith.grafted("main:", f"nodes/concept/{name}.yaml".encode(), (FILE, blob))
    parent = git(smith.git_dir, "rev-parse", "main").encode()
    body = b"tree %s\nparent %s\nauthor %s\ncommitter %s\n%s\nf\xfcr alle" % (
        tree.hex().encode(),
        parent,
        who,
        who,
        encoding,
    )
    git(smith.git_dir, "update-ref", "refs/heads/main", smith.write("commit", body).hex())


@pytest.mark.slow
def test_they_come_in_and_everything_is_still_answered(shared: Person, hub: Path) -> None:
    smith = Smith(hub)
    for n, (who, encoding) in enumerate(IDENTITIES.values()):
        pushed(smith, f"n{n}", who, encoding)
    assert shared.sync()["state"] == "ok"
    shared.put("later", summary="wombat")
    entries = shared.call("history", limit=50)["commits"]
    assert "Jürgen" in {entry["author"] for entry in entries}
    assert "für alle" in {entry["message"] for entry in entries}
    assert max(entry["at"] for entry in entries) == "9999-12-31T23:59:59Z"
    for n in range(len(IDENTITIES)):
        (node,) = shared.call("get", uris=[f"n{n}"], include=["history"])["nodes"]
        assert node["summary"] == "wombat"
        assert shared.call("history", uri=f"n{n}")["commits"]
    assert shared.call("review")["workspace"] == "infra"
    until(lambda: len(shared.call("search", query="wombat")["hits"]) == len(IDENTITIES) + 1)
    shared.put("n0", summary="edited since")
    assert shared.sync()["state"] == "ok", "later commits are pushed"
    assert git(hub, "rev-parse", "main") == shared.tip
