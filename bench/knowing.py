"""The cost of `context` and of its pattern matching.

Patterns and paths are shaped as in a large product: most areas are a folder, some a suffix anywhere. The
matcher is compared by CPU time of one thread, every variant in turn. `python -m bench.knowing` prints one JSON object a
row.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from bench import machine
from bench.corpus import WORDS
from bench.row import Row, compare, missing, value
from kgd.areas.patterns import Matcher
from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.git.layout import locate
from kgd.model.change import Author, ChangeSet, Upsert
from kgd.model.uri import Uri
from kgd.tools import call
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace

SIZES = (100, 1_000, 10_000)
PATHS = 100
PER_AREA = 3
ROUNDS = 5
CALLS = 15
NAMES = WORDS[200:240]
ENDINGS = ("ts", "tsx", "py", "css")

Areas = list[tuple[Uri, list[str]]]


def rows(folder: Path, sizes: Sequence[int] = SIZES) -> Iterator[Row]:
    for patterns in sizes:
        yield from _matching(*_made(patterns), patterns)
    times = {}
    for patterns in sizes:
        areas, paths = _made(patterns)
        times[patterns] = _asked(folder / f"{patterns}", areas, paths)
        yield from _calls(times[patterns], patterns)
    fewer, most = sizes[-2:]
    for count in (1, PATHS):
        yield compare(
            f"context of {count} paths, {most:,} patterns",
            f"{fewer:,} patterns",
            "ms",
            times[most][f"{count}"],
            times[fewer][f"{count}"],
            3.0,
        )


def _made(patterns: int) -> tuple[Areas, list[str]]:
    """About so many patterns, three per area, and paths that mostly match some of them."""
    chance = random.Random(4)
    tops = ["pages", "api", "shared", "lib", "workers", *(f"mod{n}" for n in range(patterns // 120))]
    folders = [
        f"src/{top}/{one}/{two}" for top in tops for one in chance.sample(NAMES, 12) for two in chance.sample(NAMES, 3)
    ]

    def pattern() -> str:
        folder, name, kind = chance.choice(folders), chance.choice(NAMES), chance.random()
        if kind < 0.5:
            return f"{folder}/**"
        if kind < 0.7:
            return f"{folder}/*.{chance.choice(ENDINGS)}"
        if kind < 0.85:
            return f"{folder}/{name}-*.{chance.choice(ENDINGS)}"
        if kind < 0.9:
            return f"**/{name}.test{chance.randrange(50)}.ts"
        return f"{folder}/**/*.{name}.ts" if kind < 0.95 else f"{folder}/{name}.ts"

    areas = [
        (Uri(f"atom://shop/area-{n:05d}"), [pattern() for _ in range(PER_AREA)])
        for n in range(max(1, patterns // PER_AREA))
    ]
    paths = [
        f"{chance.choice(folders)}/{chance.choice(NAMES)}{chance.choice(['', '-1', '.test7'])}.ts" for _ in range(PATHS)
    ]
    return areas, paths


def _matching(areas: Areas, paths: list[str], patterns: int) -> Iterator[Row]:
    """Against a list of compiled expressions, and an re2 Set where there is one; all find the same."""
    matcher = Matcher(areas)
    flat = [(uri, _expression(pattern)) for uri, own in areas for pattern in own]
    compiled = [(uri, re.compile(source).fullmatch) for uri, source in flat]
    variants: dict[str, Callable[[], list[list[Uri]]]] = {
        "kgd": lambda: [matcher.matches(path) for path in paths],
        "list": lambda: [sorted({uri for uri, match in compiled if match(path)}) for path in paths],
    }
    together = _re2(flat)
    if together is not None:
        variants["re2"] = lambda: [sorted({flat[n][0] for n in together(path)}) for path in paths]
    if len({orjson.dumps(found()) for found in variants.values()}) != 1:
        raise AssertionError("the matchers disagree")
    taken: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(ROUNDS):
        for name, run in variants.items():
            began = time.process_time()
            run()
            taken[name].append(time.process_time() - began)
    ms = {name: median(times) * 1e3 for name, times in taken.items()}
    what = f"{PATHS} paths against {patterns:,} patterns"
    yield compare(
        what, "a list of compiled expressions", "ms", ms["kgd"], ms["list"], 1 / 50 if patterns >= 10_000 else None
    )
    if patterns == 1_000:
        yield (
            compare(what, "an re2 Set", "ms", ms["kgd"], ms["re2"], 1.0)
            if together
            else missing(what, "an re2 Set", "google-re2 is missing")
        )


def _expression(pattern: str) -> str:
    """The pattern as a regular expression; these patterns contain only `*` and `**`."""
    parts = pattern.split("/")
    made = []
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        if part == "**":
            made.append(".+" if is_last else "(?:[^/]+/)*")
        else:
            made.append("[^/]*".join(map(re.escape, part.split("*"))) + ("" if is_last else "/"))
    return "".join(made) + ("" if "*" in pattern else "(?:/.+)?")


def _re2(flat: Sequence[tuple[Uri, str]]) -> Callable[[str], Sequence[int]] | None:
    try:
        import re2  # type: ignore[import-not-found]
    except ImportError:
        return None
    found = re2.Set.FullMatchSet()
    for _, source in flat:
        found.Add(source)
    try:
        found.Compile()
    except re2.error:  # its memory is bounded
        return None
    return lambda path: found.Match(path) or ()


def _asked(folder: Path, areas: Areas, paths: Sequence[str]) -> dict[str, float]:
    """Milliseconds of `context` in a workspace with these areas and a code tree, by kind of question."""
    code = folder / "shop"
    for number in range(20):
        (code / "src" / "shared").mkdir(parents=True, exist_ok=True)
        (code / "src" / "shared" / f"file{number}.py").write_text(f"{number}\n")
        if number == 0:
            subprocess.run(["git", "init", "-q", str(code)], check=True)
        git = ["git", "-C", str(code), "-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", f"commit {number}"], check=True)
    home = Home.at(str(folder / "home"))
    home.prepare()
    daemon = Daemon(home, since="", locate=locate, open_workspace=Workspace.open)
    try:
        session = Session(daemon, cwd=code, context_id=None)
        call(session, "up")
        workspace = daemon.workspace("shop")
        ann = Author("Ann", "ann@example.org")
        for start in range(0, len(areas), 1_000):
            edits = tuple(
                Upsert(uri, name=uri[-10:], content="What there is to know.", data={"paths": own})
                for uri, own in areas[start : start + 1_000]
            )
            workspace.submit(ChangeSet(edits, ann))
        first = _ms(lambda: call(session, "context", {"paths": [paths[0]]}), 1)
        # Until then, texts are embedded and the new areas are compared with the code.
        machine.wait_for_rest(os.getpid(), *machine.children(os.getpid()))
        return {
            "first": first,
            "1": _ms(lambda: call(session, "context", {"paths": [paths[0]]}), CALLS),
            f"{PATHS}": _ms(lambda: call(session, "context", {"paths": list(paths)}), CALLS),
            "get": _ms(lambda: call(session, "get", {"uris": [areas[0][0]]}), CALLS),
        }
    finally:
        daemon.close()


def _calls(times: dict[str, float], patterns: int) -> Iterator[Row]:
    for count in (1, PATHS):
        yield value(f"context of {count} paths, {patterns:,} patterns", "ms", times[f"{count}"])
    yield value(f"the first context, {patterns:,} patterns: areas read, and git asked", "ms", times["first"])


def _ms(run: Callable[[], Any], rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return median(taken) * 1e3


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="kgd-bench-") as made:
        for row in rows(Path(made)):
            sys.stdout.write(orjson.dumps(row).decode() + "\n")
