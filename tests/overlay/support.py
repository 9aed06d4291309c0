"""Trees and repositories that the overlay's tests look at."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from kgd.model.node import Node
from kgd.model.uri import Uri, path_of, scheme_of
from kgd.overlay.overlay import Overlay

WS = "ws"


def git(root: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True).stdout


def repository(root: Path, files: dict[str, str]) -> Path:
    """A repository with these files in its first commit."""
    root.mkdir(exist_ok=True)
    git(root, "init", "-q")
    write(root, files)
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", "first")
    return root


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def scanned(root: Path) -> Overlay:
    overlay = Overlay(root, WS)
    overlay.scan()
    return overlay


def file(path: str) -> Uri:
    return Uri(f"file://{WS}/{path}")


def folder(path: str) -> Uri:
    return Uri(f"dir://{WS}/{path or '_'}")


def nodes(overlay: Overlay) -> dict[Uri, Node]:
    found = {uri: overlay.node(uri) for uri in overlay.uris()}
    assert all(found.values())
    return {uri: node for uri, node in found.items() if node}


def paths(overlay: Overlay, scheme: str = "file") -> set[str]:
    return {path_of(uri) for uri in overlay.uris() if scheme_of(uri) == scheme} - {""}


def git_files(root: Path) -> set[str]:
    """What git would have in the next commit of everything, and is there."""
    out = git(root, "ls-files", "-co", "--exclude-standard", "-z")
    listed = {os.fsdecode(path) for path in out.split(b"\0") if path and not path.endswith(b"/")}
    return {path for path in listed if os.path.lexists(root / path) and not os.path.isdir(root / path)}


def fingerprint(folder: Path) -> dict[str, tuple[str, int]]:
    """Every file below with its bytes and its time."""
    return {
        str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
