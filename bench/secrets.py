"""The search for secrets, measured: alarms in whole code trees, and hits in the cases of another scanner.

`python -m bench.secrets DIR...` counts the files of each tree with an alarm and prints each alarm; more than one file
in a thousand fails. With `--cases FILE` (JSON lines: ``rule``, ``tps``, ``fps``) fewer than 95 % of ``tps`` found fail.
docs/decisions/0032-secrets.md says where such a file comes from. Secrets themselves are never printed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kgd.workspace.writing.secrets import first_in

MOST_ALARMS, LEAST_HITS = 0.001, 0.95


def tree(root: Path) -> bool:
    """Whether at most one file in a thousand has an alarm."""
    files = size = 0
    seconds, alarms = 0.0, list[str]()
    for path, text in _texts(root):
        files += 1
        size += len(text)
        began = time.perf_counter()
        found = first_in(text)
        seconds += time.perf_counter() - began
        if found:
            alarms.append(
                f"  {path.relative_to(root)}:{text[: text.find(found.text)].count(chr(10)) + 1}: {found.kind}"
            )
    share = len(alarms) / max(1, files)
    print(
        f"{root}: {files} files, {len(alarms)} alarms ({share:.3%}), {seconds * 1e6 / max(1.0, size / 1024):.0f} us/KiB"
    )
    print("\n".join(alarms))
    return share < MOST_ALARMS


def cases(file: Path) -> bool:
    """Whether at least 95 % of the positive cases are found."""
    total = alarms = harmless = 0
    missed: Counter[str] = Counter()
    for line in file.read_text().splitlines():
        case = json.loads(line)
        total += len(case["tps"] or ())
        harmless += len(case["fps"] or ())
        missed[case["rule"]] += sum(first_in(text) is None for text in case["tps"] or ())
        alarms += sum(first_in(text) is not None for text in case["fps"] or ())
    share = 1 - missed.total() / max(1, total)
    print(f"{file}: {share:.1%} of {total} positive cases, {alarms} alarms in {harmless} negative ones of single rules")
    print("\n".join(f"  missed {count} of {rule}" for rule, count in missed.most_common() if count))
    return share >= LEAST_HITS


def _texts(root: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink() and ".git" not in path.parts:
            data = path.read_bytes()
            yield path, "" if b"\0" in data[:8_000] else data.decode("utf-8", "replace")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.secrets")
    parser.add_argument("trees", nargs="*", type=Path, metavar="DIR")
    parser.add_argument("--cases", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    passed = [tree(root) for root in chosen.trees] + ([cases(chosen.cases)] if chosen.cases else [])
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
