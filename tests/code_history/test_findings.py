"""`kgd up` ends with findings in the code's newest commits, if chance does not explain them."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.code_history.evidence import Finding
from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.git.layout import locate
from kgd.tools import call
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.code_history.support import Code


def other(count: int, seed: int = 1) -> list[tuple[str, ...]]:
    """Commits of unrelated files."""
    chance = random.Random(seed)
    return [
        (f"Work on part {n}", f"src/{chance.randrange(60)}.py", f"lib/{chance.randrange(60)}.py") for n in range(count)
    ]


def found(code: Code) -> dict[str, Finding]:
    return {one.kind: one for one in code.history().findings()}


@pytest.mark.requirement("N3")
def test_files_that_change_together_are_a_finding_with_their_commits(code: Code) -> None:
    code.commits(other(100))
    code.commits([("Change prices", "src/cart.py", "site/prices.html")] * 14)
    tip = code.commits([("Only the cart", "src/cart.py"), ("Only the site", "site/prices.html")])
    one = found(code)["together"]
    assert one.text == "14 of 15 commits of site/prices.html also changed src/cart.py"
    assert len(one.commits) == 14
    assert tip not in one.commits


def test_a_file_and_its_test_or_the_changelog_are_no_finding(code: Code) -> None:
    code.commits(other(100))
    code.commits([("x", "src/cart.py", "tests/test_cart.py", "CHANGELOG.md", "poetry.lock")] * 14)
    assert found(code) == {}


def test_hidden_files_and_tests_are_no_finding_and_settings_come_after_source(code: Code) -> None:
    code.commits(other(100))
    code.commits([("Flows", ".github/workflows/a.yml", ".github/workflows/b.yml")] * 20)
    code.commits([("Fix a crash", "tests/test_regressions.py", "src/pkg/__init__.py")] * 20)
    code.commits([("Say how", "docs/install.md", "setup.cfg")] * 16)
    code.commits([("Change prices", "src/cart.py", "site/prices.html")] * 8)
    assert [one.paths for one in code.history().findings()] == [
        ("site/prices.html", "src/cart.py"),
        ("docs/install.md", "setup.cfg"),
    ]


@pytest.mark.requirement("N3")
def test_three_findings_are_about_different_files(code: Code) -> None:
    code.commits(other(300))
    code.commits([("Change prices", "src/cart.py", "site/prices.html", "src/tax.py")] * 20)
    code.commits([("Rename a field", "src/model.py", "site/schema.sql")] * 12)
    code.commits([("Fix a crash in the parser", "src/parser.py")] * 9)
    assert [(one.kind, set(one.paths)) for one in code.history().findings()] == [
        ("together", {"site/prices.html", "src/cart.py"}),
        ("fixes", {"src/parser.py"}),
        ("together", {"site/schema.sql", "src/model.py"}),
    ]


@pytest.mark.requirement("N3")
def test_a_file_that_is_reverted_again_and_again_is_a_finding(code: Code) -> None:
    code.commits(
        [
            *other(480),
            ("Cache it", "src/cache.py"),
            ('Revert "Cache it"', "src/cache.py"),
            ("Cache it better", "src/cache.py"),
            ('Revert "Cache it better"', "src/cache.py"),
        ]
    )
    one = found(code)["reverted"]
    assert one.text == "src/cache.py was reverted twice in 4 commits"
    assert len(one.commits) == 2


def test_a_file_that_needs_many_fixes_is_a_finding(code: Code) -> None:
    code.commits([*other(100), *[("Fix a crash in the parser", "src/parser.py")] * 9, ("Add it", "src/parser.py")])
    one = found(code)["fixes"]
    assert one.text == "src/parser.py needs many fixes: 9 of its 10 commits are fixes, and 9 of all 110 commits"


def test_a_file_whose_commits_are_all_fixes_is_named_so(code: Code) -> None:
    code.commits([*other(100), *[("Fix a crash in the parser", "src/parser.py")] * 9])
    assert found(code)["fixes"].text == "All 9 commits of src/parser.py are fixes"


def test_a_deleted_file_is_no_finding(code: Code) -> None:
    code.commits([*other(100), *[("Change prices", "src/cart.py", "site/prices.html")] * 14])
    code.commit("Drop the site", files={"site/prices.html": None})
    assert found(code) == {}


def test_a_renamed_file_is_found_under_its_new_name(code: Code) -> None:
    text = "".join(f"line {number}\n" for number in range(30))
    code.commits([*other(100), *[("Change prices", "src/cart.py", "site/prices.html")] * 14])
    code.commit("Write it anew", files={"src/cart.py": text})
    code.commit("Move it", files={"src/cart.py": None, "src/basket.py": text})
    assert found(code)["together"].paths == ("site/prices.html", "src/basket.py")


@pytest.mark.slow
def test_small_histories_and_chance_give_nothing(tmp_path: Path) -> None:
    small = Code(tmp_path / "small" / "code")
    small.commits([("Change prices", "src/cart.py", "site/prices.html")] * 40)
    assert small.history().findings() == []
    for seed in range(5):
        random_one = Code(tmp_path / str(seed) / "code")
        random_one.commits(other(400, seed))
        assert random_one.history().findings() == []


@pytest.fixture
def session(code: Code, tmp_path: Path) -> Iterator[Session]:
    code.commits([*other(600), *[("Change prices", "src/cart.py", "site/prices.html")] * 14])
    home = Home.at(str(tmp_path / "home"))
    home.prepare()
    daemon = Daemon(home, since="2026-11-21T12:00:00Z", locate=locate, open_workspace=Workspace.open)
    yield Session(daemon, cwd=code.root, client="test", context_id="test")
    daemon.close()


@pytest.mark.slow
@pytest.mark.requirement("N3")
def test_up_and_status_tell_the_findings(session: Session) -> None:
    [one] = call(session, "up", {"id": "shop"})["findings"]
    assert one["what"] == "14 of 14 commits of site/prices.html also changed src/cart.py"
    assert (one["count"], len(one["commits"])) == (14, 14)
    assert one["chance"] < 1e-9
    assert call(session, "status")["findings"] == [one]


def test_a_second_look_at_the_same_commit_reads_nothing(code: Code) -> None:
    code.commits([*other(100), *[("Change prices", "src/cart.py", "site/prices.html")] * 14])
    history = code.history()
    first = history.findings()
    begun = time.process_time()
    for _ in range(100):
        assert history.findings() is first
    assert time.process_time() - begun < 1.0
    code.commit("newer", "a")
    assert history.findings() is not first
