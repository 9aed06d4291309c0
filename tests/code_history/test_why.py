"""Why a line exists: its commit and reason, the facts that cite it, and the rules of its area."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kgd.cli import printing_context
from kgd.code_history.history import PARTIAL, SHALLOW, CodeHistory
from kgd.daemon import code_history
from kgd.daemon.daemon import Daemon
from kgd.errors import Invalid
from kgd.model.access import Kind, Principal, Scope
from kgd.model.change import Author
from kgd.tools import call
from kgd.tools.session import Session
from kgd.workspace.proposals import deciding, proposals
from kgd.workspace.workspace import Workspace
from tests.access.test_proposals import commit_on
from tests.surfaces.conftest import Ask, ask, daemon, git, make_code, session, up, upsert, ws
from tests.waiting import until

__all__ = ["ask", "daemon", "session", "ws"]

SESSION = "src/auth/session.py"
SIGN = "def sign(token):\n    check(token)\n    return token\n\n\ndef other():\n    return 1\n"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    root = make_code(tmp_path / "shop")
    git(root, "config", "user.name", "Ann Person")
    git(root, "config", "user.email", "ann@example.org")
    (root / SESSION).write_text(SIGN)
    git(root, "commit", "-qam", "Check tokens before signing\n\nForged ones were signed in May.")
    return root


@pytest.mark.requirement("N5")
@pytest.mark.requirement("N3")
def test_a_line_is_joined_with_its_commit_and_the_reason(ask: Ask, code: Path) -> None:
    [line] = ask.context(paths=f"{SESSION}:2")["lines"]
    assert git(code, "rev-parse", "HEAD").startswith(line["commit"])
    assert (line["text"], line["what"], line["why"], line["by"]) == (
        "    check(token)",
        "Check tokens before signing",
        "Forged ones were signed in May.",
        "Ann Person",
    )


@pytest.mark.slow
@pytest.mark.requirement("N5")
def test_facts_that_cite_the_line_come_before_facts_that_cite_the_file(
    ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    ask.put(
        changes=[
            upsert("gotcha:aaa", summary="About the file.", data={"cites": [SESSION]}),
            upsert("gotcha:zzz", summary="About signing.", data={"cites": [f"{SESSION}#sign"]}),
            upsert("gotcha:mmm", summary="About the other.", data={"cites": [f"{SESSION}#other"]}),
            upsert("atom:auth", name="Auth", content="Never log a token.", data={"paths": ["src/auth/**"]}),
            upsert("decision:jwt", summary="JWT it is.", relations=[{"type": "about", "target": "./src/auth/"}]),
        ]
    )
    until(lambda: ask.get(uris="symbol://shop/src/auth/session.py/sign")["nodes"])
    answer = ask.context(paths=f"{SESSION}:3")
    items = answer["items"]
    assert items[0]["uri"] == "atom://shop/auth"
    traps = [item for item in items if item["kind"] == "gotcha"]
    assert traps[0]["uri"] == "gotcha://shop/zzz"
    assert "cites sign, which contains the line" in traps[0]["why"]
    assert "decision://shop/jwt" in [item["uri"] for item in items]
    printing_context.why(answer)
    of_line, of_file = capsys.readouterr().out.split("\nAbout the file\n")
    assert "About signing." in of_line
    assert all(text in of_file for text in ("About the file.", "About the other.", "JWT it is.", "Never log a token."))
    assert "About" not in of_line.replace("About signing.", "")


def test_a_renamed_file_names_the_place_where_the_line_was_written(ask: Ask, code: Path) -> None:
    git(code, "mv", SESSION, "src/auth/tokens.py")
    git(code, "commit", "-qm", "Rename it")
    [line] = ask.context(paths="src/auth/tokens.py:2")["lines"]
    assert (line["what"], line["was"]) == ("Check tokens before signing", f"{SESSION}:2")


def test_changes_in_the_work_tree_are_marked_and_shift_the_rest(ask: Ask, code: Path) -> None:
    (code / SESSION).write_text(f"import time\n{SIGN}")
    new, old = ask.context(paths=f"{SESSION}:1-3")["lines"][::2]
    assert (new["first"], new["last"], new["uncommitted"]) == (1, 1, True)
    assert "commit" not in new
    assert (old["first"], old["what"], old["was"]) == (3, "Check tokens before signing", f"{SESSION}:2")


def test_a_new_file_and_a_line_beyond_the_end_have_no_commit(
    ask: Ask, code: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (code / "src/new.py").write_text("x = 1\n")
    answer = ask.context(paths="src/new.py:1")
    assert answer["lines"][0]["uncommitted"]
    printing_context.why(answer)
    assert "not committed yet" in capsys.readouterr().out
    assert "lines" not in ask.context(paths="src/new.py:99")
    assert "lines" not in ask.context(paths="src/missing.py:1")


def test_no_filter_of_the_repository_runs(ask: Ask, code: Path, tmp_path: Path) -> None:
    (code / ".gitattributes").write_text("*.py filter=mine diff=mine\n")
    for key in ("filter.mine.clean", "filter.mine.smudge", "diff.mine.textconv"):
        git(code, "config", key, f"touch {tmp_path}/ran; cat")
    (code / SESSION).write_text(f"import time\n{SIGN}")
    assert ask.context(paths=f"{SESSION}:3")["lines"][0]["what"] == "Check tokens before signing"
    assert not (tmp_path / "ran").exists()


def test_commits_that_only_reformat_are_looked_through(ask: Ask, code: Path) -> None:
    (code / SESSION).write_text(SIGN.replace("    ", "  "))
    git(code, "commit", "-qam", "Reformat")
    (code / ".git-blame-ignore-revs").write_text(f"# reformatting\n{git(code, 'rev-parse', 'HEAD').strip()}\n")
    assert ask.context(paths=f"{SESSION}:2")["lines"][0]["what"] == "Check tokens before signing"
    (code / ".git-blame-ignore-revs").write_text("no commit\n")
    assert ask.context(paths=f"{SESSION}:2")["lines"][0]["what"] == "Reformat"


def test_a_path_that_names_a_node_is_reported_as_a_node(ask: Ask) -> None:
    ask.put(changes={"op": "upsert", "uri": "concept://shop/services/door", "name": "Door"})
    told = ask.context(paths="services/door")
    assert told["unknown_paths"] == [
        "there is no file or folder services/door in the code tree; concept://shop/services/door is a node"
    ]
    assert "concept://shop/services/door is a node." in told["missing"]["message"]


def test_a_file_whose_name_ends_like_a_line_is_a_file(ask: Ask, code: Path) -> None:
    (code / "notes:12").write_text("x\n")
    assert "lines" not in ask.context(paths="notes:12")


@pytest.mark.parametrize("lines", ["0", "5-4", "1-999"])
def test_a_range_without_lines_or_with_too_many_is_refused(ask: Ask, lines: str) -> None:
    with pytest.raises(Invalid, match="range"):
        ask.context(paths=f"{SESSION}:{lines}")


def test_lines_that_do_not_exist_are_reported_to_callers_on_this_machine(ask: Ask, code: Path, ws: Workspace) -> None:
    asked = {"paths": [f"{SESSION}:8", "src/auth/nosuch.py:1", "src/auth:1", f"{SESSION}:7"], "workspace": ws.id}
    assert ask.context(**asked)["unknown_lines"] == [
        f"{SESSION} has 7 lines, so there is no line 8",
        "there is no readable file src/auth/nosuch.py in the code tree",
        "src/auth is a folder, so it has no lines",
    ]
    (code / "src/auth/one.py").write_text("x = 1\n")
    assert ask.context(paths="src/auth/one.py:2")["unknown_lines"] == [
        "src/auth/one.py has 1 line, so there is no line 2"
    ]
    (code / "src/auth/key.bin").write_bytes(b"a\0b\nc\n")
    told = ask.context(paths="src/auth/key.bin:1")
    assert "lines" not in told
    assert told["unknown_lines"] == ["src/auth/key.bin is not a text file, or too large, so it has no lines to show"]
    (code / ".gitignore").write_text("secret.env\n")
    (code / "secret.env").write_text("KEY = hidden\n")
    for path in ("secret.env", ".git/config"):
        told = ask.context(paths=f"{path}:1")
        assert "lines" not in told
        assert told["unknown_lines"] == [f"there is no readable file {path} in the code tree"]
    whole = Principal("t1", "bob", "person", (Scope.of(ws.id, ["read"], ["/**"]),))
    remote = Session(ask.session.daemon, cwd=code, client="remote", principal=whole)
    assert "unknown_lines" not in call(remote, "context", asked)


@pytest.mark.requirement("N3")
def test_the_holder_of_a_token_sees_no_history_of_the_code(ask: Ask, code: Path, ws: Workspace) -> None:
    whole = Principal("t1", "bob", "person", (Scope.of(ws.id, ["read"], ["/**"]),))
    remote = Session(ask.session.daemon, cwd=code, client="remote", principal=whole)
    for asked in ({"paths": [f"{SESSION}:2", "src/"]}, {"task": "check tokens before signing"}):
        own, far = (call(one, "context", {**asked, "workspace": ws.id}) for one in (ask.session, remote))
        told = str(far)
        assert not {"lines", "known_by", "likely_files", "tried_before"} & far.keys()
        assert far["changes"] == []
        assert "Check tokens" not in told
        assert "Ann Person" not in told
        assert "Check tokens" in str(own)


@pytest.mark.slow
@pytest.mark.requirement("N3")
def test_a_policy_may_show_the_history_to_tokens_without_names(ask: Ask, code: Path, ws: Workspace) -> None:
    (code / SESSION).write_text(f"{SIGN}NOT_SHARED = 1\n")
    settings = ws.store.read(ws.store.entry(ws.store.tree_of(bytes.fromhex(ws.tip)), "kgd.yaml") or b"").decode()
    commit = commit_on(ws, ws.tip, ("kgd.yaml", f"{settings}policy:\n- paths: [/**]\n  code_history: [people]\n"))
    git(ws.layout.git_dir, "update-ref", "refs/heads/proposals/p", commit)
    deciding.accept(ws, proposals.named(ws, "p"), Author("ann", "ann@example.org"))
    asked = {"paths": [f"{SESSION}:1-9", "src/"], "task": "check tokens before signing", "workspace": ws.id}
    kinds: tuple[tuple[Kind, str, bool], ...] = (
        ("person", "/**", True),
        ("agent", "/**", False),
        ("person", "/src/**", False),
    )
    for kind, paths, shown in kinds:
        who = Principal("t1", "bob", kind, (Scope.of(ws.id, ["read"], [paths]),))
        remote = Session(ask.session.daemon, cwd=code, client="remote", principal=who)
        told = call(remote, "context", asked)
        assert {"lines", "likely_files", "tried_before"} <= told.keys() if shown else "lines" not in told
        assert ("Check tokens" in str(told)) == shown
        assert "known_by" not in told
        assert "Ann Person" not in str(told)
        assert "NOT_SHARED" not in str(told)


def test_a_task_is_answered_with_likely_files_and_past_attempts(ask: Ask, code: Path) -> None:
    answer = ask.context(task="check tokens again before signing them")
    assert answer["likely_files"][0]["path"] == SESSION
    assert answer["tried_before"][0]["what"] == "Check tokens before signing"
    assert git(code, "rev-parse", "HEAD").startswith(answer["likely_files"][0]["commits"][0])


def test_past_attempts_at_a_task_are_of_the_period_that_was_asked_for(ask: Ask) -> None:
    task = "check tokens again before signing them"
    [tried] = ask.context(task=task)["tried_before"][:1]
    day = tried["at"][:10]
    assert tried in ask.context(task=task, since=day, until=day)["tried_before"]
    assert "tried_before" not in ask.context(task=task, until="1999")
    assert "tried_before" not in ask.context(task=task, since="2099")


@pytest.mark.slow
def test_a_failed_start_of_the_process_that_reads_a_long_history_is_reported_and_tried_again(
    ask: Ask, code: Path, ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    until(lambda: CodeHistory.of(ws).is_read)
    with monkeypatch.context() as patch:
        patch.setattr(code_history, "FEW", 0)
        patch.setattr(code_history, "PROGRAM", ("\0",))
        git(code, "commit", "-q", "--allow-empty", "-m", "Adopt kumquats")
        until(lambda: any(text.startswith("code history: ") for text in ask.status()["degraded"]))
    git(code, "commit", "-q", "--allow-empty", "-m", "Adopt quinces")
    until(lambda: CodeHistory.of(ws).is_read)
    assert not any(text.startswith("code history: ") for text in ask.status()["degraded"])


@pytest.mark.slow
def test_a_daemon_follows_commits_and_reads_a_long_history_beside(ask: Ask, code: Path, ws: Workspace) -> None:
    lines = "".join(
        f"commit refs/heads/long\ncommitter A <a@b> {1_700_000_000 + number} +0000\ndata 9\nzebra {number % 10} x\n"
        f"M 100644 inline z.txt\ndata {len(str(number))}\n{number}\n"
        for number in range(700)
    )
    subprocess.run(["git", "-C", code, "fast-import", "--quiet"], input=lines.encode(), check=True)
    git(code, "checkout", "-q", "-f", "long")
    until(lambda: len(ask.context(paths="z.txt", budget=8_000)["changes"]) == 8)
    assert (ws.derived_dir / "code-history.sqlite").exists()
    git(code, "commit", "-q", "--allow-empty", "-m", "empty")
    (code / "z.txt").write_text("newest\n")
    git(code, "commit", "-qam", "Newest of all")
    until(lambda: ask.context(paths="z.txt")["changes"][0]["what"] == "Newest of all")
    assert ".sqlite" not in git(ws.layout.work_tree, "status", "--short", "--ignored")


@pytest.mark.slow
def test_a_search_leaves_out_past_files_too_deep_for_a_uri(ask: Ask, code: Path) -> None:
    deep = code / Path(*["d"] * 70) / "rotation.py"
    deep.parent.mkdir(parents=True)
    deep.write_text("def rotate():\n    pass\n")
    (code / "src/auth/keys.py").write_text("# rotate signing keys every night\nKEYS = {}\n")
    git(code, "add", "-A")
    git(code, "commit", "-qm", "Rotate signing keys every night")
    until(lambda: "past commits" in str(ask.search(query="rotate signing keys every night please")["code"]))


@pytest.mark.slow
def test_past_files_outside_of_the_namespace_of_a_search_are_no_hits(ask: Ask, code: Path) -> None:
    for path in ("src/checkout.py", "src/auth/keys.py"):
        (code / path).write_text("# rotate signing keys every night\n")
    git(code, "commit", "-qam", "Rotate signing keys every night")
    query = "rotate signing keys every night please"
    until(lambda: "past commits" in str(ask.search(query=query)["code"]))
    found = [hit["uri"] for hit in ask.search(query=query, namespace="src/auth")["code"]]
    assert found[0] == "file://shop/src/auth/keys.py"
    assert all("/src/auth/" in uri for uri in found)


@pytest.mark.slow
def test_a_line_that_is_older_than_a_shallow_clone_has_no_author(
    daemon: Daemon, code: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (code / SESSION).write_text(SIGN.replace("return 1", "return 2"))
    git(code, "commit", "-qam", "Return two")
    git(tmp_path, "clone", "-q", "--depth=2", f"file://{code}", "clone/shop")
    ask = Ask(up(daemon, tmp_path / "clone/shop"))
    answer = ask.context(paths=f"{SESSION}:6-7")
    assert [(line.get("older"), line.get("what"), line.get("by")) for line in answer["lines"]] == [
        (True, None, None),
        (None, "Return two", "Ann Person"),
    ]
    assert answer["notes"] == [SHALLOW]
    printing_context.why(answer)
    assert "written before the history of this shallow clone" in capsys.readouterr().out
    assert any(SHALLOW in line for line in ask.status()["degraded"])


@pytest.mark.slow
def test_an_answer_from_a_clone_without_its_objects_names_the_cause_and_the_remedy(
    daemon: Daemon, code: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git(code, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=tree:0", f"file://{code}", "clone/shop")
    answer = Ask(up(daemon, tmp_path / "clone/shop")).context(paths=f"{SESSION}:2")
    assert answer["notes"] == [PARTIAL]
    printing_context.why(answer)
    assert "its history has no commits" not in capsys.readouterr().out
