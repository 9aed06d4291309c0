"""Another worktree of the code: its lines and citations are read there, and answers name the served one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kgd.errors import NotFound
from kgd.freshness.freshness import Freshness
from kgd.tools import worktrees
from kgd.tools.session import Session
from tests.surfaces.conftest import Ask, ask, code, daemon, git, new_daemon, session
from tests.waiting import until

__all__ = ["ask", "code", "daemon", "session"]

SESSION = "src/auth/session.py"
CHANGED = "import hmac\n\n\ndef sign(token):\n    return hmac.new(token)\n\n\ndef renew(token):\n    return token\n"


@pytest.fixture(params=["../feature", "trees/feature"])
def feature(code: Path, session: Session, request: pytest.FixtureRequest) -> Ask:
    """A caller in a second worktree, beside the main one or in it, in which a commit changed `sign` and added
    `renew`."""
    tree = (code / request.param).resolve()
    git(code, "worktree", "add", "-q", "-b", "feature", str(tree))
    (tree / SESSION).write_text(CHANGED)
    git(tree, "commit", "-qam", "Sign with a key")
    until(lambda: Ask(session).get(uris=f"symbol://shop/{SESSION}/sign")["nodes"])
    return Ask(Session(session.daemon, cwd=tree, client="test-client 1.0", context_id="test"))


@pytest.mark.slow
def test_a_line_and_its_commit_come_from_the_callers_worktree(feature: Ask, code: Path) -> None:
    answer = feature.context(paths=f"{SESSION}:5")
    assert [(line["text"], line["what"]) for line in answer["lines"]] == [
        ("    return hmac.new(token)", "Sign with a key")
    ]
    assert answer["notes"] == [f"everything except the lines is about the code in {code}, not in this work tree"]


@pytest.mark.slow
def test_git_is_asked_about_a_file_as_often_for_many_lines_as_for_one(
    feature: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, is_listed, counts = list[str](), worktrees._is_listed, list[int]()

    def counted(top: Path, path: str) -> bool:
        runs.append(path)
        return is_listed(top, path)

    monkeypatch.setattr(worktrees, "_is_listed", counted)
    for lines in ((5,), (1, 4, 5, 8, 9)):
        assert len(feature.context(paths=[f"{SESSION}:{line}" for line in lines])["lines"]) == len(lines)
        counts.append(len(runs))
        runs.clear()
    assert 0 < counts[0] == counts[1]


@pytest.mark.slow
def test_paths_and_lines_in_another_clone_mean_its_own_files(ask: Ask, code: Path, tmp_path: Path) -> None:
    git(code, "remote", "add", "origin", str(tmp_path / "shop.git"))
    git(tmp_path, "clone", "-q", str(code), "twin")
    twin = tmp_path / "twin"
    git(twin, "remote", "set-url", "origin", str(tmp_path / "shop.git"))
    (twin / SESSION).write_text(CHANGED)
    git(twin, "commit", "-qam", "Sign with a key")
    there = Ask(Session(ask.session.daemon, cwd=twin / "src/auth", client="test-client 1.0", context_id="test"))
    for path in ("session.py", str(twin / SESSION)):
        answer = there.context(workspace="shop", paths=f"{path}:5")
        assert [(line["path"], line["what"]) for line in answer["lines"]] == [(SESSION, "Sign with a key")]
        assert answer["notes"] == [f"everything except the lines is about the code in {code}, not in this work tree"]


@pytest.mark.slow
def test_a_relative_uri_in_a_worktree_is_a_file_of_the_code(feature: Ask) -> None:
    assert feature.get(uris=f"./{SESSION}")["nodes"][0]["uri"] == f"file://shop/{SESSION}"


@pytest.mark.slow
@pytest.mark.parametrize("named", ["about", "cites"])
def test_a_file_that_only_the_callers_worktree_has_is_missing_in_the_named_tree(
    feature: Ask, ask: Ask, code: Path, session: Session, named: str
) -> None:
    (code / SESSION).unlink()
    until(lambda: ask.get(uris=f"./{SESSION}")["missing"])
    for caller, tree in ((feature, f"the code in {code}"), (ask, "the code tree")):
        with pytest.raises(NotFound, match=f"^{re.escape(tree)} has no {SESSION}"):
            caller.remember(text="Sessions are signed.", **{named: [SESSION]})


@pytest.mark.slow
def test_a_line_that_the_callers_worktree_lacks_is_counted_there(feature: Ask, code: Path) -> None:
    answer = feature.context(paths=f"{SESSION}:999")
    assert answer["unknown_lines"] == [f"{SESSION} has 9 lines, so there is no line 999"]
    assert answer["notes"] == [f"everything except the lines is about the code in {code}, not in this work tree"]


@pytest.mark.slow
def test_facts_of_a_moved_symbol_are_found_by_its_line_in_the_worktree(feature: Ask, ask: Ask) -> None:
    ask.remember(text="Signing is slow.", cites=f"{SESSION}#sign")
    until(lambda: "cites sign, which" in str(feature.context(paths=f"{SESSION}:5")["items"]))
    assert "cites sign, which" not in str(feature.context(paths=f"{SESSION}:9")["items"])


@pytest.mark.slow
def test_answers_about_code_name_the_served_tree_only_in_another_worktree(feature: Ask, ask: Ask, code: Path) -> None:
    served = f"the code in {code}, not in this work tree"
    assert feature.status()["workspace"]["note"] == f"kgd serves {served}"
    assert feature.stale()["note"].endswith(served)
    assert "note" not in ask.status()["workspace"]
    assert "note" not in ask.stale()
    assert "notes" not in ask.context(paths=SESSION)
    for name in ("sign", "renew"):
        assert feature.context(paths=name)["notes"] == [f"this answer is about {served}"]
        assert feature.search(query=name)["note"] == f"code hits come from {served}"
        assert "notes" not in ask.context(paths=name)
        assert "note" not in ask.search(query=name)
    assert "note" not in feature.search(query="team knowledge")


@pytest.mark.slow
def test_a_fact_about_the_worktree_becomes_stale_neither_there_nor_after_the_merge(
    feature: Ask, ask: Ask, code: Path
) -> None:
    assert feature.remember(text="Tokens are renewed.", cites=f"{SESSION}#renew")["warnings"] == [
        f"renew is only in this work tree: {SESSION} in {code} does not have it"
    ]
    assert feature.remember(text="Signing needs a key.", cites=f"{SESSION}:5")["warnings"] == [
        f"cites {SESSION}#sign, which contains line 5"
    ]
    assert stale(ask) == []
    git(code, "merge", "-q", "feature")
    Freshness.of(ask.session.daemon.workspace("shop")).files_changed([SESSION])
    assert stale(ask) == []


@pytest.mark.slow
def test_a_worktree_of_a_bare_repository_is_the_code(code: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(code), "shop.git")
    git(tmp_path / "shop.git", "worktree", "add", "-q", str(tmp_path / "main"))
    daemon = new_daemon(tmp_path)
    try:
        ask = Ask(Session(daemon, cwd=tmp_path / "main"))
        assert ask.up()["code_tree"] == str(tmp_path / "main")
        [line] = ask.context(paths=f"{SESSION}:1")["lines"]
        assert line["what"] == "code"
        git(tmp_path / "shop.git", "worktree", "remove", str(tmp_path / "main"))
        git(tmp_path / "shop.git", "worktree", "add", "-q", str(tmp_path / "other"), "HEAD")
        other = Ask(Session(daemon, cwd=tmp_path / "other"))
        assert other.up()["code_tree"] == str(tmp_path / "other")
    finally:
        daemon.close()


def test_a_citation_in_a_bare_repository_is_reported_as_unchecked(code: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(code), "shop.git")
    daemon = new_daemon(tmp_path)
    try:
        ask = Ask(Session(daemon, cwd=tmp_path / "shop.git"))
        ask.up()
        [warning] = ask.remember(text="Signing is slow.", cites=f"{SESSION}#sign")["warnings"]
        assert warning == f"{SESSION}#sign cannot be checked: this workspace has no code tree here"
    finally:
        daemon.close()


def stale(ask: Ask) -> list[str]:
    return [node["uri"] for node in ask.stale()["nodes"]]
