"""Every command in the documents runs here or in the walk of its page, or has a remark with the reason why not.

The blocks ```` ```sh ```` and ```` ```console ```` of a page are one session in a prepared world. Names on a page (a
server, a token, a folder) are replaced by real ones. The lines after `$ …` of a console are its output, if any; `…`
matches any text.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kgd.cli.commands import DRY_RUN, GLOBAL, VERBS
from kgd.config import Home
from tests.daemon.conftest import end_daemon
from tests.hub.conftest import new_hub
from tests.test_docs import PAGES, ROOT, shows
from tests.worlds_of_docs import WORLDS, World

_FENCE = re.compile(r"^(<!-- not run: [^\n]+ -->\n)?```(\w*)([^\n]*)\n(.*?)^```$", re.M | re.S)


class Block(NamedTuple):
    """Commands of a page: their first line, their kind of fence, and the reason if they are not run."""

    line: int
    language: str
    text: str
    why_not: str


def blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text()
    return [
        Block(text.count("\n", 0, found.start()) + 1, found[2], found[4], found[1] or "")
        for found in _FENCE.finditer(text)
        if found[2] in ("sh", "bash", "console") and not found[3].startswith(" walk")
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with a code repository `shop`, a home, and this code as `kgd` on the PATH."""
    for name in ("bin", "me", "server", "shop/src/auth"):
        (tmp_path / name).mkdir(parents=True)
    program = tmp_path / "bin/kgd"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m kgd.cli "$@"\n')
    program.chmod(0o755)
    (tmp_path / "me/.gitconfig").write_text("[user]\n\tname = Ann Person\n\temail = ann@example.org\n")
    (tmp_path / "shop/src/auth/session.py").write_text("def check():\n    return True\n")
    subprocess.run("git init -q . && git add . && git commit -qm first", shell=True, check=True, cwd=tmp_path / "shop")
    yield tmp_path
    for home in (tmp_path / "home", tmp_path / "home/of-bob"):
        end_daemon(Home.at(str(home)))


@pytest.mark.slow
@pytest.mark.requirement("B1")
@pytest.mark.parametrize("page", sorted(WORLDS))
def test_the_commands_of_a_page_have_the_described_effect(page: str, folder: Path) -> None:
    world = WORLDS[page]
    environment = {
        **os.environ,
        "PATH": f"{folder}/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "T": str(folder),
        "KGD_HOME": str(folder / "home"),
        "HOME": str(folder / "me"),
    }
    hub = None
    if world.has_hub:
        (folder / "hub").mkdir()
        hub = new_hub(folder / "hub").start()
        hub.put("concept://infra/services/auth", summary="Issues tokens")
        (folder / "token").touch(0o600)
        (folder / "token").write_text(hub.mint("read", also=["propose:/**"]) + "\n")
        environment |= {"HUB": hub.url, "TOKEN": str(folder / "token")}
    run = [block for block in blocks(page) if not block.why_not]
    script, shown = _script(run, world)
    try:
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", script],
            cwd=folder,
            env=environment,
            text=True,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
    finally:
        if hub:
            hub.stop()
    assert done.returncode == 0, f"{page}:\n{done.stdout[-3000:]}"
    for number, said in enumerate(done.stdout.split("@@@\n")[1:]):
        printed = said.replace(str(folder / "me"), "/home/me")
        assert not shown[number] or shows(shown[number], printed), f"{page} shows\n{shown[number]}but it is\n{printed}"


def _script(run: list[Block], world: World) -> tuple[str, list[str]]:
    """All blocks of a page as one script, and the expected output of each command."""
    assert sorted(world.before)[-1] < len(run), "a world is made up for a block that is not there"
    parts, shown = [], []
    for number, block in enumerate(run):
        parts.append(world.before.get(number, ""))
        text = block.text
        for written, here in world.spelled.items():
            text = text.replace(written, here)
        if block.language != "console":
            parts += ["echo @@@", text]
            shown.append("")
            continue
        for command in re.split(r"^\$ ", text, flags=re.M)[1:]:
            line, _, printed = command.partition("\n")
            parts += ["echo @@@", line]
            shown.append(printed)
    return "\n".join([*parts, "echo @@@"]), [*shown, ""]


def test_every_page_with_commands_is_run_or_states_a_reason() -> None:
    named = {f"{page}:{block.line}" for page in PAGES for block in blocks(page) if block.why_not}
    run = {page for page in PAGES if any(not block.why_not for block in blocks(page))}
    assert run == {*WORLDS, "docs/cli.md"}, "tests/cli/test_commands.py runs the examples of docs/cli.md"
    assert len(named) <= 4, f"commands that no test runs: {sorted(named)}"


def test_commands_are_fenced_as_commands() -> None:
    assert [
        f"{page}: {text.strip().splitlines()[0]}"
        for page in PAGES
        for language, text in re.findall(r"^```(\w*)[^\n]*\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)
        if language in ("", "text") and re.match(r"\$ |(kgd|git|make) [a-z-]+( |$)", text)
    ] == []


def test_every_walk_is_walked() -> None:
    tests = "".join(place.read_text() for place in (ROOT / "tests").rglob("test_*.py"))
    walked = [page for page in PAGES if re.search(r"^```(sh|python) walk", (ROOT / page).read_text(), re.M)]
    assert [page for page in walked if f'"{page}"' not in tests] == []


NO_COMMANDS = {"help", "request"}
"""Words after `kgd` that are not commands of the table."""
VERB = {verb.name: verb for verb in VERBS}
SPOKEN = re.compile(r"`kgd (?:-[Cw] \S+ )?([a-z][\w-]*)((?: [^`\n]*)?)`")


INDENTED = re.compile(r"^    (?:.*&& )?kgd ([a-z][\w-]*)([^\n#|&]*)", re.M)


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])
def test_a_command_in_a_sentence_or_an_indented_block_exists(page: str) -> None:
    text = (ROOT / page).read_text()
    unknown = []
    for name, rest in [*SPOKEN.findall(text), *INDENTED.findall(_FENCE.sub("", text))]:
        if name in NO_COMMANDS:
            continue
        verb = VERB.get(name)
        given = [] if verb is None else [*verb.arguments, *GLOBAL, DRY_RUN]
        flags = {flag for argument in given for flag in argument.flags} | {"--help"}
        options = re.findall(r"(?<=[ \[|])--?[a-z][\w-]*", rest)
        if verb is None or not flags.issuperset(options):
            unknown.append(f"kgd {name}{rest}")
    assert unknown == []


@pytest.mark.parametrize("page", PAGES)
def test_a_module_of_this_repository_that_a_page_runs_exists(page: str) -> None:
    named = set(re.findall(r"python -m ((?:bench|kgd|tests)[\w.]*)", (ROOT / page).read_text()))
    assert [name for name in sorted(named) if importlib.util.find_spec(name.rstrip(".")) is None] == []
