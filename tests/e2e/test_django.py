"""A code tree of real size: Django's, from its source distribution. Slow, and needs the registry."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

import pytest

from tests.e2e.conftest import PIP_CACHE, Machine, git
from tests.e2e.lean import LeanClient
from tests.e2e.test_first_steps import fingerprint
from tests.waiting import until

KEPT = bytes(set(range(0x21, 0x7F)) - set(b'"#%<>?[\\]^`{|}/')).decode()
"""Unescaped ASCII of a URI segment, repeated here as a check of kgd's own table."""


def uri_of(path: str) -> str:
    """The URI of a file according to the contract."""
    raw = [os.fsencode(part) for part in path.split("/")]
    return "file://django/" + "/".join(_segment(part) for part in raw)


def _segment(raw: bytes) -> str:
    text = raw.decode()
    if unicodedata.normalize("NFC", text) == text:
        return "".join(char if ord(char) > 0x7F else quote_from_bytes(char.encode(), KEPT) for char in text)
    return quote_from_bytes(raw, KEPT)


def facts_of(code: Path) -> tuple[set[str], set[str]]:
    """Files and directories according to the file system and git."""
    files = {uri_of(path) for path in git(code, "ls-files", "-z").split("\0") if path}
    folders = {"dir://django/_"}
    for at, names, _ in os.walk(code):
        names[:] = [name for name in names if name not in (".git", ".kgd")]
        folders |= {uri_of(str((Path(at) / name).relative_to(code))).replace("file:", "dir:", 1) for name in names}
    return files, folders


@pytest.fixture
def django(tmp_path: Path) -> Path:
    """Django 5.2's source as a git repository of two commits, where the first lacks twenty files and has others."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "django", "django==5.2.*"]
    environment = {**os.environ, "PIP_CACHE_DIR": PIP_CACHE}
    environment.pop("PYTHONPATH", None)
    subprocess.run([*command, "--dest", tmp_path], check=True, env=environment, capture_output=True)
    (archive,) = tmp_path.glob("[Dd]jango-*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    archive.unlink()
    (unpacked,) = tmp_path.glob("[Dd]jango-*")
    code = unpacked.rename(tmp_path / "django")
    git(code, "init", "-q")
    git(code, "config", "gc.auto", "0")  # a background process would disturb the comparison of bytes
    git(code, "add", "-A", "-f")
    git(code, "commit", "-qm", "source")
    return code


def assert_holds(machine: Machine, client: LeanClient, files: set[str], folders: set[str]) -> None:
    """The graph has these files and directories, each below its own directory, and no others."""
    counts = machine.json("status")["counts"]
    assert (counts["files"], counts["directories"]) == (len(files), len(folders))
    below: set[str] = set()
    for node in nodes_of(client, sorted(folders), ["relations"]):
        below |= {relation["target"] for relation in node.get("relations", ())}
    assert below == files | folders - {"dir://django/_"}
    assert {node["uri"] for node in nodes_of(client, sorted(files), [])} == files


def nodes_of(client: LeanClient, uris: list[str], include: list[str]) -> Iterator[dict[str, Any]]:
    """All of these nodes, in several calls; a long node comes in parts."""
    for begin in range(0, len(uris), 200):
        cursor: dict[str, str] = {}
        while True:
            asked = uris[begin : begin + 200]
            answer = client.call("get", uris=asked, include=include, budget=10_000, **cursor)
            assert answer["missing"] == []
            yield from answer["nodes"]
            if not answer.get("cursor"):
                break
            cursor = {"cursor": answer["cursor"]}


def missing(client: LeanClient, paths: list[str]) -> int:
    answer = client.call("get", uris=[f"./{path}" for path in paths], include=["content"], budget=20_000)
    return len(answer["missing"])


@pytest.mark.large
@pytest.mark.needs("registry")
@pytest.mark.requirement("E10")
@pytest.mark.requirement("E20")
@pytest.mark.timeout(240)
def test_the_graph_has_every_file_of_django_and_follows_the_tree_without_a_commit(
    machine: Machine, django: Path
) -> None:
    here = machine.at(django)
    before = fingerprint(django)
    began = time.monotonic()
    said = here.json("up")
    seconds = time.monotonic() - began
    files, folders = facts_of(django)
    until(lambda: here.json("status")["counts"]["files"] == len(files), 60)
    whole = time.monotonic() - began
    assert fingerprint(django) == before
    assert git(django, "status", "--porcelain") == ""
    assert said["created"]
    with here.client() as client:
        assert_holds(here, client, files, folders)
        peak = _peak(here.pid())
        print(
            f"django: {len(files)} files, {len(folders)} directories; up {seconds:.2f} s, whole graph {whole:.2f} s, "
            f"peak memory {peak:.0f} MB"
        )
        tip = git(django / ".git/kgd", "show-ref")
        follow(client, django)
        assert git(django / ".git/kgd", "show-ref") == tip, "following stores nothing"
        assert_holds(here, client, *facts_of(django))
    here("down")
    shutil.rmtree(django)


def follow(client: LeanClient, code: Path) -> None:
    """Twenty files touched, twenty moved, twenty deleted, and another commit checked out."""
    chosen = [path for path in git(code, "ls-files", "django/contrib/*.py").splitlines() if "__init__" not in path]
    touched, moved, deleted = chosen[:20], chosen[20:40], chosen[40:60]

    def lines_of(path: str) -> int:
        return int(client.call("get", uris=[f"./{path}"])["nodes"][0]["data"]["line_count"])

    known = {path: lines_of(path) for path in touched}
    for path in touched:
        with open(code / path, "a") as file:
            file.write("# one more\n")
    _report("touch", until(lambda: all(lines_of(path) == known[path] + 1 for path in touched)))

    (code / "elsewhere").mkdir()
    there = [f"elsewhere/{number}.py" for number in range(20)]
    for old, new in zip(moved, there, strict=True):
        (code / old).rename(code / new)
    _report("move", until(lambda: missing(client, there) == 0 and missing(client, moved) == 20))

    for path in deleted:
        (code / path).unlink()
    _report("delete", until(lambda: missing(client, deleted) == 20))

    git(code, "add", "-A")
    git(code, "commit", "-qm", "work")
    git(code, "checkout", "-q", "HEAD~1")
    _report("checkout", until(lambda: missing(client, there) == 20 and missing(client, [*moved, *deleted]) == 0))


def _report(what: str, seconds: float) -> None:
    print(f"django: {what} followed after {seconds:.2f} s")


def _peak(pid: int) -> float:
    """Peak memory of a process in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
