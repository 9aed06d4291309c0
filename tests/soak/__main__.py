"""The long proofs, by time: kills of writers and of processes for derived data, gc beside writers, any order of
changes, power cuts; teams that sync with failures, daemons killed in a sync or while git tidies up, a hub with many
clients, random scopes and pushes; a daemon in long use; the tests at full size; their coverage; and each file with
tests marked ``soak``.

    python -m tests.soak --minutes 60 [--only kill] [--seed 7]

They take turns, the longest unrun first, since a whole round takes longer than an hour. Every turn appends a line to
``tests/soak/ledger.jsonl``: when, which proof, its seed, the commit of the code, the counts, and the outcome. A failed
turn is run again with its seed.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from tests.conftest import OPEN_FILES, PROGRAMS, ROOT

PR_SET_PDEATHSIG = 1
LEDGER = Path(__file__).with_name("ledger.jsonl")
Counts = dict[str, Any]


def counts_of(found: Any) -> Counts:
    """The fields of a dataclass. `asdict` would turn a Counter into a count of its pairs."""
    return {field.name: getattr(found, field.name) for field in fields(found)}


def kill(place: Path, seed: int) -> Counts:
    from tests.faults.test_kill import killed_at_random

    return {"kills": 100, **counts_of(killed_at_random(place, 100, seed))}


def derived(place: Path, seed: int) -> Counts:
    from tests.faults.test_derived_worker import killed_while_deriving

    return dict(killed_while_deriving(place, 200, seed))


def gc(place: Path, seed: int) -> Counts:
    from tests.faults.test_gc import tidied_up

    found, ran = tidied_up(place, 40, seed, publish=bool(seed % 2))
    assert found.complaints == [], found
    return {**counts_of(found), **ran}


def damage(place: Path, seed: int) -> Counts:
    from tests.faults.damage import copy, make_template
    from tests.faults.test_damage import HITS, looked_at

    template = make_template(place / "template")
    truth = looked_at(copy(template, place / "truth"))
    for number, what in zip(range(300), itertools.cycle(HITS), strict=False):
        HITS[what](template, truth, place / str(number), seed * 1000 + number)
    return {"damaged": 300}


def model(place: Path, seed: int) -> Counts:
    command = [sys.executable, "-m", "pytest", "-q", "tests/faults/test_model.py", f"--hypothesis-seed={seed}"]
    return by_pytest([*command, "-o", "timeout=3000"])


def marked(path: str, place: Path, seed: int) -> Counts:
    return by_pytest([sys.executable, "-m", "pytest", "-q", "-m", "soak", path, "-o", "timeout=3000"])


def coverage(place: Path, seed: int) -> Counts:
    """The tests' coverage, with the examples of a usual run."""
    return by_pytest(["env", "-u", "KGD_SOAK", "make", "--no-print-directory", "coverage"])


def by_pytest(command: list[str]) -> Counts:
    environment = {**os.environ, "KGD_SOAK": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, preexec_fn=end_with_us
    )
    assert done.returncode in (0, 5), done.stdout[-4000:]
    return {"said": done.stdout.strip().splitlines()[-1][:120]}


def power(place: Path, seed: int) -> Counts:
    from tests.faults.test_power_cut import cuts

    seen = cuts(place, "flushed", seed * 1000, 40)
    assert seen["failed"] == 0, seen
    (place / "control").mkdir()
    control = cuts(place / "control", "unflushed", seed * 1000, 10)
    assert control["failed"] >= 0.95 * control["cuts"], f"the control loses too little to prove anything: {control}"
    return {"cuts": seen["cuts"], **seen["found"], "control": f"{control['failed']} of {control['cuts']} failed"}


def publication(place: Path, seed: int) -> Counts:
    """Power cuts right after publication, 20 on each file system available here, and a control."""
    from tests.faults.test_power_cut import publication_cuts

    counts: Counts = {"cuts": 0}
    for name, program in (("ext4", "mount"), ("xfs", "mkfs.xfs"), ("btrfs", "mkfs.btrfs")):
        if not PROGRAMS[program]():
            print(f"publication on {name}: MISSING PROGRAM {program}: run `make test-deps`")
            continue
        seen = publication_cuts(place / name, "healed", name, seed * 1000, 20)
        assert seen["failed"] == 0, (name, seen)
        control = publication_cuts(place / f"{name}-control", "unhealed", name, seed * 1000, 6)
        assert control["failed"] >= 2, f"the control loses too little to prove anything on {name}: {control}"
        counts["cuts"] += seen["cuts"]
        counts[name] = {**seen["found"], "damaged": seen["damaged"], "control": f"{control['failed']} of 6 failed"}
    return counts


def planner(place: Path, seed: int) -> Counts:
    from tests.sim import planner as sim

    for schedule in range(seed * 100_000, seed * 100_000 + 50_000):
        sim.run(schedule)
    return {"schedules": 50_000}


def teams(place: Path, seed: int) -> Counts:
    from tests.sim import teams as sim
    from tests.sim.desks import template

    with sim.places() as folder:
        blank = template(folder)
        for schedule in range(seed * 1_000, seed * 1_000 + 500):
            sim.run(schedule, folder, blank)
    return {"schedules": 500}


def sync(place: Path, seed: int) -> Counts:
    from tests.sync.killed import killed_while_syncing

    return counts_of(killed_while_syncing(place, 60, seed))


def tidying(place: Path, seed: int) -> Counts:
    """About eight minutes."""
    from tests.sync.killed import CHORES, killed_while_syncing

    return counts_of(killed_while_syncing(place, 300, seed, CHORES))


def hub(place: Path, seed: int) -> Counts:
    from bench import corpus
    from bench import hub as measured

    made = corpus.build(place / "workspace", 2_000)
    with measured.serving(made, place / "hub", begun=end_with_us) as serving:
        worst, errors, rate = measured.load(serving, made, clients=200, seconds=60, seed=seed)
    assert errors["value"] == 0, errors
    assert worst["value"] < 10, worst
    return {"clients": 200, "p99_seconds": worst["value"], "calls_per_second": rate["per_s"], "errors": 0}


def scopes(place: Path, seed: int) -> Counts:
    from tests.access.test_breaches import breaches

    allowed, refused = breaches(place, seed, graphs=40, cases=500)
    return {"cases": 20_000, "allowed": allowed, "refused": refused}


def pushes(place: Path, seed: int) -> Counts:
    from tests.hooks.test_receive_law import agree

    agree(range(seed * 1_000, seed * 1_000 + 600), place)
    return {"histories": 600}


def endurance(place: Path, seed: int) -> Counts:
    """About five minutes."""
    from tests.faults.endurance import complaints, line, lived_through, serving

    writes, reads, seen = 100_000, 200_000, []
    with serving(place) as served:
        for tenth, vitals in enumerate(lived_through(served, writes, reads)):
            seen.append(vitals)
            print(line(10 * tenth, vitals), flush=True)
        assert (found := complaints(served, seen)) == [], found
    return {"writes": writes, "reads": reads, **counts_of(seen[-1])}


def large(place: Path, seed: int) -> Counts:
    """About five minutes."""
    return by_pytest([sys.executable, "-m", "pytest", "-q", "-m", "large", "tests", "-o", "timeout=600"])


PROOFS: dict[str, Callable[[Path, int], Counts]] = {
    "kill": kill,
    "derived": derived,
    "gc": gc,
    "damage": damage,
    "model": model,
    "power": power,
    "publication": publication,
    "planner": planner,
    "teams": teams,
    "sync": sync,
    "tidying": tidying,
    "hub": hub,
    "scopes": scopes,
    "pushes": pushes,
    "large": large,
    "endurance": endurance,
    "coverage": coverage,
}
MARKED = [
    path.relative_to(ROOT).as_posix()
    for path in sorted(ROOT.glob("tests/**/test_*.py"))
    if "pytest.mark.soak" in path.read_text()
]
"""Files with tests marked `soak`. Each is a proof."""
PROOFS |= {path: partial(marked, path) for path in MARKED}


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.soak")
    options.add_argument("--minutes", type=float, default=60)
    options.add_argument("--only", choices=PROOFS, action="append")
    options.add_argument("--seed", type=int, help="the first turn's seed; later ones count on from it")
    chosen = options.parse_args()
    end, failed = time.monotonic() + 60 * chosen.minutes, 0
    seeds = itertools.count(chosen.seed) if chosen.seed is not None else iter(lambda: random.randrange(10**6), None)
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True)
    own_world()
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    for name in itertools.cycle(chosen.only or longest_unrun()):
        if time.monotonic() > end:
            break
        if name in ("power", "publication") and not PROGRAMS["mount"]():
            print(f"{name}: MISSING PROGRAM mount (needs root)")
            continue
        line = turn(name, int(str(next(seeds))), commit.stdout.strip())
        failed += line["result"] != "passed"
        print(json.dumps(line), flush=True)
    return min(failed, 1)


def longest_unrun() -> list[str]:
    last = {row["proof"]: row["at"] for row in map(json.loads, LEDGER.read_text().splitlines())}
    return sorted(PROOFS, key=lambda name: last.get(name, ""))


def turn(name: str, seed: int, commit: str) -> Counts:
    began, at = time.monotonic(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line: Counts = {"at": at, "proof": name, "seed": seed, "commit": commit}
    with tempfile.TemporaryDirectory(prefix="kgd-soak-", ignore_cleanup_errors=True) as place:
        try:
            counts, result = PROOFS[name](Path(place), seed), "passed"
        except Exception:  # noqa: BLE001  the ledger holds failures as well
            counts, result = {"trace": without_places(traceback.format_exc())[-3000:]}, "failed"
    line |= {"result": result, "seconds": round(time.monotonic() - began, 1), "counts": counts}
    with open(LEDGER, "a") as ledger:
        ledger.write(json.dumps(line) + "\n")
    return line


def without_places(trace: str) -> str:
    """A traceback in which files of this repository have relative paths, and other files only their names."""
    return re.sub(r'File "/.*/', 'File "', trace.replace(f"{ROOT}/", ""))


def end_with_us() -> None:
    """Run in a freshly forked process: a killed soak leaves no running process."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def own_world() -> None:
    """An environment without the user's git configuration and home, as in the tests."""
    home = tempfile.mkdtemp(prefix="kgd-soak-home-")
    (Path(home) / ".gitconfig").write_text("[user]\n\tname = Ann Person\n\temail = ann@example.org\n")
    os.environ.update(HOME=home, KGD_HOME=f"{home}/kgd", GIT_CONFIG_NOSYSTEM="1", LC_ALL="C.UTF-8")


if __name__ == "__main__":
    sys.exit(main())
