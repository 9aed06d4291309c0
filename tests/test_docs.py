"""The documents are correct: commands print the shown output, links have targets, and every command is documented.

A block ```` ```sh walk ```` is executed; a ```` ```text ```` block after it is its output, where `…` matches any text
(alone on a line: any lines). `sh walk soon` repeats a command until its output matches, because saved files are noticed
with a delay. The blocks of one page are one session.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kgd import errors
from kgd.cli.commands import EXIT_CODES
from kgd.config import Home
from kgd.tools import LOCAL, SERVED
from kgd.tools.operation import Reflects
from tests.daemon.conftest import end_daemon
from tests.soak.__main__ import LEDGER, without_places

ROOT = Path(__file__).resolve().parent.parent
SOON = 15.0


def _pages() -> list[str]:
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return sorted(name for name in listed if (ROOT / name).exists())


PAGES = _pages()

# Walks


class Step(NamedTuple):
    """One block of commands, with its first line and its shown output, if any."""

    line: int
    script: str
    shown: str | None
    soon: bool


class Session(NamedTuple):
    """A repository for walks, and an environment with `kgd` on the PATH."""

    directory: Path
    environment: dict[str, str]

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", script],
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )


_BLOCK = re.compile(r"^```sh walk( soon)?\n(.*?)^```\n(?:\n*```text\n(.*?)^```\n)?", re.M | re.S)


def steps(page: str) -> list[Step]:
    text = (ROOT / page).read_text()
    return [
        Step(text.count("\n", 0, found.start()) + 1, found[2], found[3], bool(found[1]))
        for found in _BLOCK.finditer(text)
    ]


def shows(shown: str, printed: str) -> bool:
    pattern = "".join(
        r"(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + r"\n" for line in shown.splitlines()
    )
    return re.fullmatch(pattern, printed) is not None


def in_shop(folder: Path, programs: Path, **variables: str) -> Session:
    """The repository that README describes, below `folder`, with the programs of another folder on the PATH."""
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "PATH": f"{programs}:{os.environ['PATH']}",
        "KGD_HOME": Home.at(str(folder / "home")).config,
        **variables,
    }
    code = folder / "shop"
    (code / "src" / "auth").mkdir(parents=True)
    (code / "src" / "auth" / "session.py").write_text("def check():\n    return True\n")
    made = Session(code, environment)
    assert made.run("git init -q . && git add . && git commit -qm first").returncode == 0
    return made


def walk(page: str, session: Session) -> None:
    """Execute the blocks of a page, and compare each output."""
    found = steps(page)
    assert found
    for step in found:
        deadline = time.monotonic() + (SOON if step.soon else 0)
        while True:
            done = session.run(step.script)
            if done.returncode == 0 and (step.shown is None or shows(step.shown, done.stdout)):
                break
            assert time.monotonic() < deadline, f"{page}:{step.line} is otherwise ({done.returncode}):\n{done.stdout}"
            time.sleep(0.05)
    status = session.run("git status --porcelain --ignored")
    assert status.stdout.replace("!! .kgd/\n", "") == ""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """The repository that README describes, and this code as `kgd`."""
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "kgd"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m kgd.cli "$@"\n')
    program.chmod(0o755)
    yield in_shop(tmp_path, programs, PYTHONPATH=str(ROOT))
    end_daemon(Home.at(str(tmp_path / "home")))


@pytest.mark.requirement("B1")
@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        pytest.param("docs/concepts.md", marks=pytest.mark.slow),
        pytest.param("docs/guides/first-workspace.md", marks=pytest.mark.slow),
        pytest.param("docs/guides/agent-memory.md", marks=pytest.mark.slow),
        pytest.param("docs/guides/agent-user.md", marks=pytest.mark.slow),
        pytest.param("docs/guides/team-lead.md", marks=pytest.mark.slow),
        pytest.param("docs/guides/ci.md", marks=pytest.mark.slow),
        pytest.param("docs/tasks.md", marks=pytest.mark.slow),
        pytest.param("docs/areas.md", marks=pytest.mark.slow),
        pytest.param("docs/context.md", marks=pytest.mark.slow),
        pytest.param("docs/search.md", marks=pytest.mark.slow),
        pytest.param("docs/staleness.md", marks=pytest.mark.slow),
    ],
)
def test_the_commands_of_a_page_run_and_print_what_it_shows(page: str, session: Session) -> None:
    walk(page, session)


# Links and completeness


@pytest.mark.parametrize("page", PAGES)
def test_relative_links_lead_somewhere(page: str) -> None:
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(), flags=re.M | re.S)
    broken = []
    for target in [*re.findall(r"\]\(([^)\s]+)\)", text), *re.findall(r'<img src="([^"]+)"', text)]:
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            file = (ROOT / page).parent / path if path else ROOT / page
            if not file.exists() or (anchor and anchor not in anchors(file)):
                broken.append(target)
    assert broken == []


def anchors(file: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", file.read_text(), flags=re.M)
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}


def test_links_to_headings_are_followed() -> None:
    assert {"1-workspace", "long-paths"} - anchors(ROOT / "docs/format.md") == {"long-paths"}


def test_a_comparison_with_others_shows_measured_figures_only() -> None:
    """Each figure of its tables is in the same row of the measurements."""
    measured: dict[str, str] = {}
    for line in _lines("docs/performance.md"):
        label, _, figures = line.strip("| ").partition(" | ")
        measured[label.partition(": note")[0]] = measured.get(label.partition(": note")[0], "") + figures
    section = (ROOT / "docs/comparison.md").read_text().partition("\n## Measured\n")[2]
    rows = [
        line.strip("|").split("|") for line in section.splitlines() if re.match(r"\|(?!---)(?!.*notes \| kgd)", line)
    ]
    label = ""
    for name, *cells in ([cell.strip(" *") for cell in row] for row in rows):
        label = name.partition(", median")[0] if name.startswith("search") else label
        found = measured[label if name.startswith("…") else name]
        assert [cell for cell in cells if cell not in found] == [], name


@pytest.mark.parametrize("page", PAGES)
def test_a_code_span_is_on_one_line(page: str) -> None:
    """A search of the source for a command finds it, and no wrapped line ends within one."""
    text = re.sub(r"^( *)```.*?^ *```$", "", (ROOT / page).read_text(), flags=re.M | re.S)
    lines = [re.sub(r"``.*?``", "", line) for line in text.splitlines()]
    assert [line for line in lines if line.count("`") % 2] == []


@pytest.mark.parametrize("folder", ["docs", "docs/decisions"])
def test_every_page_is_in_the_index_of_its_folder(folder: str) -> None:
    index = (ROOT / folder / "README.md").read_text()
    pages = [Path(page).name for page in PAGES if str(Path(page).parent) == folder and not page.endswith("README.md")]
    assert [page for page in pages if f"]({page})" not in index] == []


def test_decisions_are_numbered_and_answer_the_same_questions() -> None:
    pages = sorted((ROOT / "docs/decisions").glob("0*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        text = page.read_text()
        assert text.startswith(f"# {int(page.name[:4])}. ")
        assert "**Context.**" in text


def test_every_error_and_every_exit_code_is_documented() -> None:
    rows = {cells[0].strip(): line for line in _lines("docs/cli.md") if len(cells := line.strip("| \n").split("|")) > 2}
    codes = {*errors.BY_CODE, errors.Stale.code}
    assert {code for code, (_, _) in EXIT_CODES.items()} >= codes
    for code, (number, _) in EXIT_CODES.items():
        if code in codes:
            assert f"| {number} | `{code}` |" in rows[str(number)]
    assert [code for code in codes if f"`{code}`" not in (ROOT / "docs/mcp.md").read_text()] == []


def test_hub_md_lists_the_operations_for_tokens_and_the_operations_without_a_validator() -> None:
    listed = (ROOT / "docs/hub.md").read_text().partition("## The HTTP interface")[2].partition("\n## ")[0]
    offered, _, validators = listed.partition("**Validators.**")
    assert [name for name in LOCAL if name in SERVED and f"`{name}`" not in offered] == []
    assert [
        name for name, one in SERVED.items() if Reflects.NOW in one.reflects and f"`{name}`" not in validators
    ] == []


def test_every_make_target_is_in_contributing_and_no_other() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.M)) - {"help"}
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert set(re.findall(r"^\| `make ([a-z-]+)` \|", page, flags=re.M)) == targets
    for text in (page, (ROOT / "README.md").read_text()):
        assert set(re.findall(r"\bmake ([a-z]+(?:-[a-z]+)*)`", text)) <= targets


def test_the_lines_to_paste_start_the_same_server() -> None:
    readme = (ROOT / "README.md").read_text()
    lines = dict(re.findall(r"^\| ([A-Z][\w ]+) \| (?:in `\S+`: )?`(.*kgd.*)` \|$", readme, flags=re.M))
    server = {"command": "kgd", "args": ["mcp"]}
    assert json.loads(lines["Cursor"]) == {"mcpServers": {"kgd": server}}
    assert json.loads(lines["VS Code"].split("'")[1]) == {"name": "kgd", **server}
    assert lines["Claude Code"] == "claude mcp add --scope user kgd -- kgd mcp"  # the default is a single project
    assert lines["Codex"] == "codex mcp add kgd -- kgd mcp"


@pytest.mark.parametrize("page", PAGES)
def test_no_page_names_a_place_on_somebodys_machine(page: str) -> None:
    assert places_in((ROOT / page).read_text()) == []


def test_the_ledger_of_long_proofs_names_no_place_on_somebodys_machine() -> None:
    assert places_in(LEDGER.read_text()) == []
    trace = f'  File "{ROOT}/tests/a.py", line 1, in a\n  File "/home/ann/.pyenv/lib/b.py", line 2, in b\n'
    assert without_places(trace) == '  File "tests/a.py", line 1, in a\n  File "b.py", line 2, in b\n'


def places_in(text: str) -> list[str]:
    found = re.findall(r"(?<![\w.~$}…/])/(?:work|root|home|Users|opt|mnt|srv|var)/[\w./-]*", text)
    return [place for place in found if not place.startswith("/home/me/")]


def _lines(page: str) -> list[str]:
    return (ROOT / page).read_text().splitlines()
