"""The generator of `change_sets.yaml`: the files that differ between consecutive releases of Django.

    python -m tests.knowing.django.change_sets FOLDER

fetches the source distributions that FOLDER lacks, compares each with its predecessor, and prints a change set for
each pair: the files below `django/` that were added, removed or changed, without compiled catalogues. Expectations are
written by hand, from the release notes and the files; existing expectations are kept.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

HERE = Path(__file__).parent
SERIES = (
    ("5.1", *(f"5.1.{patch}" for patch in range(1, 16))),
    ("5.2", *(f"5.2.{patch}" for patch in range(1, 13))),
)
HEADER = """\
# Files below django/ that differ between consecutive releases, as change_sets.py lists them from the source
# distributions, and the areas that a reader wants to read about before such a change: judged from the
# release notes and the files, before kgd was first asked. `memories` are some memories relevant to the change,
# `unmatched` the files that no area is expected for. Nothing was made easier: areas of files that did not change are
# expected where they hold what one has to know, and areas of files in which only a comment changed are not.
"""


def fetched(version: str, folder: Path) -> Path:
    """The source distribution of that version."""
    for name in (f"Django-{version}.tar.gz", f"django-{version}.tar.gz"):
        if (folder / name).exists():
            return folder / name
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--no-binary",
        "django",
        "--dest",
        str(folder),
    ]
    subprocess.run([*command, f"django=={version}"], check=True)
    return fetched(version, folder)


def hashes(archive: Path) -> Mapping[str, str]:
    """The contents of the files below `django/`, by path."""
    found = {}
    with tarfile.open(archive) as packed:
        for member in packed:
            path = member.name.partition("/")[2]
            if member.isfile() and path.startswith("django/") and not path.endswith((".mo", ".pyc")):
                file = packed.extractfile(member)
                assert file is not None
                found[path] = hashlib.sha256(file.read()).hexdigest()
    return found


def differing(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    return sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))


def main() -> None:
    folder, kept_in, yaml = Path(sys.argv[1]), HERE / "change_sets.yaml", YAML()
    yaml.width = 120
    kept: dict[str, Any] = {}
    if kept_in.exists():
        kept = {one["release"]: one for one in YAML(typ="safe").load(kept_in)}
    told = []
    for series in SERIES:
        for (_, old), (version, new) in pairwise((version, hashes(fetched(version, folder))) for version in series):
            before = kept.get(version, {})
            told.append(
                {
                    "release": version,
                    "notes": before.get("notes", ""),
                    "expected": before.get("expected", []),
                    "memories": before.get("memories", []),
                    "unmatched": before.get("unmatched", []),
                    "changed": differing(old, new),
                }
            )
    text = io.StringIO(HEADER)
    text.seek(0, io.SEEK_END)
    yaml.dump(told, text)
    print(text.getvalue(), end="")


if __name__ == "__main__":
    main()
