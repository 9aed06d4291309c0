"""A home, two workspaces and tokens as one version of kgd leaves them, kept so that every later version opens them.

    python -m tests.release.old_state PROGRAM ARCHIVE

PROGRAM is the `kgd` of that version. ARCHIVE then holds `home/`, `shop/` (a workspace on its own), `code/` (a code
repository with a workspace) and `answers.json`: the answers of that version, which later ones must repeat. Paths in the
registry begin with PLACE, which `unpacked` replaces.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

PLACE = "/kgd-old-state"
ASKED = {
    "cart": ("get", "cart", "--include", "content", "--include", "relations", "--include", "history"),
    "decision": ("get", "insight:carts-expire-after-a-day", "--include", "content", "--include", "relations"),
    "history": ("history", "cart"),
    "walk": ("traverse", "cart", "--budget", "4000"),
    "conflicts": ("conflicts",),
}
"""Calls whose answers are kept, in the workspace `shop`."""


class Program:
    def __init__(self, program: str, place: Path, home: Path) -> None:
        self.program, self.place = program, place
        self.environment = {**os.environ, "KGD_HOME": str(home)}

    def __call__(self, folder: str, *words: str, stdin: str = "") -> str:
        done = subprocess.run(
            [self.program, *words],
            cwd=self.place / folder,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def json(self, folder: str, *words: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self(folder, *words, "--json"))
        return answer


def make(kgd: Program) -> dict[str, Any]:
    """Fill the home and both workspaces; the answers to keep."""
    place = kgd.place
    (place / "person").mkdir()
    (place / "person" / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@example.org\n")
    kgd.environment["HOME"] = str(place / "person")
    for folder in ("shop", "code"):
        (place / folder).mkdir()
    (place / "code" / "session.py").write_text("def check():\n    return True\n")
    for words in (["init", "-q", "--template=", "-b", "main"], ["add", "."], ["commit", "-qm", "begin"]):
        subprocess.run(["git", *words], cwd=place / "code", env=kgd.environment, check=True)
    kgd("shop", "up", "--standalone", "--id", "shop")
    kgd("code", "up", "--id", "code")
    kgd(
        "shop",
        "put",
        "cart",
        "--summary",
        "The wishes of a customer",
        "--content",
        "It expires.\n",
        "--tags",
        "shop",
        "--relations",
        "uses:prices@0.5",
        "--request-id",
        "old-request-0001",
    )
    kgd("shop", "put", "prices", "--summary", "Prices in cents")
    second = [kgd.json("shop", "put", "cart", "--summary", text)["commit"] for text in ("one", "two")][1]
    kgd("shop", "put", "cart", "--summary", "three")
    kgd("shop", "revert", second)
    kgd(
        "shop", "remember", "Carts expire after a day", "--about", "cart", "--detail", "-", stdin="Because of prices.\n"
    )
    kgd("shop", "tag", "cart", "old")
    (place / "shop.md").write_text("# Checkout\n\nThe checkout page takes payments.\n")
    kgd("shop", "ingest", str(place / "shop.md"))
    kgd("code", "remember", "Sessions outlive a restart", "--about", "session.py", "--cites", "session.py")
    tokens = {
        name: kgd.json("shop", "token", "mint", "shop", "--name", name, "--verbs", "read,write")
        for name in ("kept", "gone")
    }
    kgd("shop", "token", "revoke", tokens["gone"]["id"])
    kgd("shop", "search", "checkout")
    answers = {name: kgd.json("shop", *words) for name, words in ASKED.items()}
    answers["tokens"] = tokens
    answers["code"] = kgd.json("code", "recall", "sessions")
    return answers


def unpacked(archive: Path, place: Path) -> dict[str, Any]:
    """Lay the state out below `place`; the answers that its version gave."""
    with tarfile.open(archive) as packed:
        packed.extractall(place, filter="tar")
    _move(place, PLACE, str(place))
    answers: dict[str, Any] = json.loads((place / "answers.json").read_text())
    return answers


def _move(place: Path, old: str, new: str) -> None:
    for name in ("home/workspaces.yaml", "home/state/workspaces-good.yaml"):
        (place / name).write_text((place / name).read_text().replace(old, new))


def main() -> None:
    program, archive = sys.argv[1:]
    place = Path(tempfile.mkdtemp(prefix="old-"))
    kgd = Program(program, place, place / "home")
    try:
        try:
            answers = make(kgd)
        finally:
            kgd("shop", "down")
        (place / "answers.json").write_text(json.dumps(answers, indent=1))
        _move(place, str(place), PLACE)
        shutil.rmtree(place / "home" / "state" / "logs")
        with tarfile.open(archive, "w:xz") as packed:
            for name in ("home", "shop", "code", "answers.json"):
                packed.add(place / name, arcname=name)
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
