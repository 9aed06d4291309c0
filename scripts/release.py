"""Make a release: ``python scripts/release.py [--draft]`` writes all published files into ``dist/``.

Wheel and sdist (reproducible: one commit gives the same bytes), the build context of the container image, a software
bill of materials, release notes and checksums. The version comes from ``kgd.__version__``. Without ``--draft`` the work
tree must be clean and CHANGELOG.md must have a section for the version.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 12 << 20
"""Bytes of the wheel and of the sdist."""
_LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)((?:.*\\\n)*.*)", re.M)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def main(arguments: list[str]) -> int:
    draft, dist = "--draft" in arguments, ROOT / "dist"
    version = _said("-m", "hatchling", "version").strip()
    notes = changes(version if not draft else "Unreleased")
    if not draft:
        if not notes:
            sys.exit(f"CHANGELOG.md has no section '## {version}'. Rename 'Unreleased', or use --draft.")
        if _git("status", "--porcelain"):
            sys.exit("The work tree has changes that are not committed. Commit them, or use --draft.")
    dist.mkdir(exist_ok=True)
    for old in dist.iterdir():
        old.unlink()
    _said("-m", "hatchling", "build", "-d", str(dist), "-t", "wheel", "-t", "sdist")
    (sdist,) = dist.glob("*.tar.gz")
    for made in dist.iterdir():
        if made.stat().st_size > LIMIT:
            sys.exit(f"{made.name} has {made.stat().st_size} bytes, more than {LIMIT}.")
    (dist / f"kgd-hub-context-{version}.tar.gz").write_bytes(context(sdist))
    (dist / f"kgd-daemon-{version}.cdx.json").write_text(json.dumps(bill(version), indent=1) + "\n")
    (dist / "NOTES.md").write_text(notes)
    sums = [f"{hashlib.sha256(made.read_bytes()).hexdigest()}  {made.name}" for made in sorted(dist.iterdir())]
    (dist / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    print(*sums, sep="\n")
    return 0


def changes(version: str) -> str:
    """The section of CHANGELOG.md for a version, without its heading; empty if there is none."""
    text = (ROOT / "CHANGELOG.md").read_text()
    found = re.search(rf"^## \[?{re.escape(version)}\]?.*\n((?:(?!## ).*\n?)*)", text, re.M)
    return found[1].strip() + "\n" if found else ""


def context(sdist: Path) -> bytes:
    """The build context of deploy/Containerfile as a tar archive: the sdist without its top folder."""
    packed = io.BytesIO()
    with tarfile.open(sdist) as source, tarfile.open(fileobj=packed, mode="w") as target:
        for member in source.getmembers():
            member.name = member.name.partition("/")[2]
            target.addfile(member, source.extractfile(member))
    return gzip.compress(packed.getvalue(), mtime=0)


def bill(version: str) -> dict[str, Any]:
    """The CycloneDX 1.6 bill of materials: the locked packages and the scripts that the pages ship."""
    locked = _LOCKED.findall((ROOT / "locks/runtime.txt").read_text())
    parts = [_package(name, release, _HASH.findall(rest)) for name, release, rest in locked]
    for about in tomllib.loads((ROOT / "kgd/ui/static/SHIPPED.toml").read_text()).values():
        hashes = [{"alg": "SHA-256", "content": about["sha256"]}]
        script = _component("library", "npm", about["package"], about["version"], about["licence"])
        parts.append({**script, "hashes": hashes})
    product = _component("application", "pypi", "kgd-daemon", version, "MIT")
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": product}}
    return {**head, "components": parts}


def _component(kind: str, index: str, name: str, version: str, licence: str) -> dict[str, Any]:
    about = {"type": kind, "name": name, "version": version, "purl": f"pkg:{index}/{name}@{version}"}
    return {**about, "licenses": [{"license": {"name": licence}}]}


def _package(name: str, version: str, hashes: list[str]) -> dict[str, Any]:
    try:
        about = metadata.metadata(name).json
        licence = str(about.get("license_expression") or about.get("license") or "see its metadata")
    except metadata.PackageNotFoundError:  # locked for another platform
        licence = "see its metadata"
    # One hash per file of the package's release: which of them is installed depends on the platform.
    properties = [{"name": "sha256", "value": one} for one in hashes]
    return {**_component("library", "pypi", name, version, licence.splitlines()[0]), "properties": properties}


def _said(*words: str) -> str:
    return subprocess.run([sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
