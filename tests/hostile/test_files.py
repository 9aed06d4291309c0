"""Hostile files in the work tree: named with a reason, opened only if that is safe, the rest served."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from kgd.codec import paths
from kgd.errors import KgdError
from tests.codec.hostile import FULL, PATHS, URIS, YAML, Hostile
from tests.hostile.target import Target
from tests.waiting import until

pytestmark = pytest.mark.slow

NODES = "nodes/concept"


def save(target: Target, path: str, data: bytes) -> Path:
    file = target.work_tree / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


@pytest.mark.requirement("E2")
@pytest.mark.parametrize("each", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_all_yaml_of_the_table_is_refused_and_named(target: Target, each: int) -> None:
    chosen: list[Hostile] = [case for case in YAML if case.name != "nothing"][::each]
    with target.memory():
        for number, case in enumerate(chosen):
            save(target, f"{NODES}/yaml{number}.yaml", case.data)
        until(lambda: target.status()["counts"]["invalid_files"] == len(chosen), 40, target.status)
    target.answers()
    for number, case in enumerate(chosen):
        answer = target.call("get", {"uris": [f"concept://shop/yaml{number}"]})
        assert answer["nodes"] == [], case.name
    for number, _ in enumerate(chosen):
        (target.work_tree / f"{NODES}/yaml{number}.yaml").unlink()
    until(lambda: target.status()["counts"]["invalid_files"] == 0, say=target.invalid)
    target.answers()


def test_no_text_of_the_table_is_a_uri_in_a_file(target: Target) -> None:
    chosen = [case for case in URIS if case.text.isprintable() and case.text.strip() == case.text and case.text]
    for number, case in enumerate(chosen):
        text = case.text.replace("\\", "\\\\").replace('"', '\\"')
        where = f'uri: concept://shop/uri{number}\nrelations:\n- {{type: t, target: "{text}"}}\n'
        save(target, f"{NODES}/uri{number}.yaml", where.encode())
    until(lambda: target.status()["counts"]["invalid_files"] == len(chosen), say=target.status)
    for number, _ in enumerate(chosen):
        (target.work_tree / f"{NODES}/uri{number}.yaml").unlink()
    until(lambda: target.status()["counts"]["invalid_files"] == 0, say=target.invalid)
    target.answers()


def test_a_file_at_a_path_of_no_node_is_named_or_left_alone(target: Target) -> None:
    """Each claims the URI of an existing node of another author. None may change that node."""
    placed = []
    for case in PATHS:
        inside = case.text.startswith("nodes/") and os.path.normpath(case.text) == case.text
        if not inside or ".git/" in case.text or "\0" in case.text or len(os.path.basename(case.text)) > 250:
            continue
        try:
            placed.append(save(target, case.text, b"uri: concept://shop/good\nsummary: hijacked\n"))
        except OSError:
            continue  # a folder of that name exists
    assert len(placed) > 30
    target.put("concept://shop/behind-the-paths", summary="x")
    until(lambda: target.status()["counts"]["invalid_files"] > 20, say=target.invalid)
    target.answers()
    assert target.node("concept://shop/behind-the-paths")
    for one in placed:
        one.unlink(missing_ok=True)
    until(lambda: target.status()["counts"]["invalid_files"] == 0, say=target.invalid)


def test_only_small_regular_files_are_opened(target: Target, tmp_path: Path) -> None:
    folder = target.work_tree / NODES
    secret = tmp_path / "secret"
    secret.write_text("uri: concept://shop/link\nsummary: the private key\n")
    with target.memory():
        (folder / "link.yaml").symlink_to(secret)
        os.mkfifo(folder / "fifo.yaml")
        (folder / "device.yaml").symlink_to("/dev/zero")
        (folder / "loop").symlink_to(".")
        (folder / "etc").symlink_to("/etc")
        (folder / "folder.yaml").mkdir()
        with open(folder / "huge.yaml", "wb") as file:
            file.truncate(1 << 30)
        with socket.socket(socket.AF_UNIX) as listening:
            before = os.getcwd()
            os.chdir(folder)
            listening.bind("socket.yaml")
            os.chdir(before)
        (folder / "locked.yaml").write_text("uri: concept://shop/locked\n")
        wanted = {f"{NODES}/{name}.yaml" for name in ("link", "fifo", "device", "huge", "socket")}
        until(lambda: wanted <= target.invalid().keys(), say=target.invalid)
        target.put("concept://shop/beside-them", summary="x")
        until(lambda: (folder / "beside-them.yaml").exists(), say=target.status)
    named = target.invalid()
    assert "1024 MiB" in named[f"{NODES}/huge.yaml"]
    assert "symbolic link" in named[f"{NODES}/link.yaml"]
    assert target.node("concept://shop/link") == {}
    for name in ("link", "fifo", "device", "huge", "socket"):
        (folder / f"{name}.yaml").unlink()
    for name in ("loop", "etc"):
        (folder / name).unlink()
    until(lambda: not target.invalid(), say=target.invalid)
    target.answers()


def test_reading_a_growing_file_ends(target: Target) -> None:
    path = save(target, f"{NODES}/growing.yaml", b"uri: concept://shop/growing\ncontent: |\n")
    with open(path, "ab") as file, target.memory():
        for _ in range(200):
            file.write(b"  word\n" * 10_000)
            file.flush()
        target.answers()
        until(lambda: f"{NODES}/growing.yaml" in target.invalid(), say=target.invalid)
    path.unlink()


@pytest.mark.slow
def test_thousands_of_new_files_are_ingested_without_delaying_clients(fresh_target: Callable[[], Target]) -> None:
    target = fresh_target()
    with target.memory():
        for number in range(2_000):
            save(target, f"{NODES}/many/n{number}.yaml", b"uri: concept://shop/many/n%d\nsummary: x\n" % number)
            if number % 500 == 0:
                target.answers()
        until(lambda: target.status()["counts"]["nodes"] >= 2_000, 40, target.status)
    target.answers()


def test_the_codec_refuses_every_row_of_the_tables() -> None:
    """Otherwise the tests above could pass with harmless input."""
    for case in PATHS:
        try:
            assert paths.uri_of(case.text, "shop", frozenset()) is None, case.text
        except KgdError:
            continue
    assert all(len(case.data) <= 5 * FULL for case in YAML)
