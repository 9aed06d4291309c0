"""Answers from past commits: files that a task will touch, earlier attempts, and files that change together."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest

from kgd.code_history.evidence import by_chance, is_significant
from kgd.code_history.history import PARTIAL, SHALLOW, CodeHistory
from tests.code_history.support import BOB, DAY, Code, git


@pytest.fixture
def shop(code: Code) -> CodeHistory:
    """Sixty commits: the cart with its test, the invoice with its template, sessions, and unrelated files."""
    wanted: list[tuple[str, ...]] = []
    for number in range(12):
        wanted += [
            (f"Round prices in the cart, step {number}", "src/cart.py", "tests/test_cart.py"),
            (f"Lay out the invoice anew, page {number}", "src/invoice.py", "templates/bill.html"),
            (f"Rotate signing keys of sessions, week {number}", "src/session.py"),
            (f"Describe release {number}", "docs/releases.md"),
            (f"Tidy up {number}", f"src/other_{number}.py"),
        ]
    code.commits(wanted)
    return code.history()


@pytest.mark.requirement("N3")
def test_a_task_leads_to_the_files_of_similar_commits(shop: CodeHistory) -> None:
    [first, second, *_] = shop.files_for("prices are rounded twice in the cart")
    assert {first.path, second.path} == {"src/cart.py", "tests/test_cart.py"}
    assert first.score == 1.0 >= second.score
    named = [shop.commit(id) for id in first.commits]
    assert all(one is not None and "Round prices" in one.subject for one in named)
    assert "past commits" in first.why


def test_a_companion_follows_the_file_that_the_task_names(shop: CodeHistory) -> None:
    found = {file.path: file for file in shop.files_for("broken margins", 5, seeds={"src/invoice.py": 0.8})}
    assert list(found)[:2] == ["src/invoice.py", "templates/bill.html"]
    assert found["templates/bill.html"].why == ("changes together with src/invoice.py",)


def test_a_word_without_a_subject_leads_to_no_file_of_that_name(code: Code) -> None:
    code.commits([("Build it on Windows", "make.bat"), ("Sum up the prices", "src/cart.py")])
    assert [file.path for file in code.history().files_for("make the cart faster")] == ["src/cart.py"]


def test_words_of_a_path_lead_to_the_file(shop: CodeHistory) -> None:
    assert shop.files_for("nothing but other_7")[0].path == "src/other_7.py"


def test_a_deleted_file_is_not_predicted(code: Code) -> None:
    code.commits([("Parse the gopher protocol", "src/gopher.py", "src/urls.py"), ("x", "a")])
    code.commit("Drop it", files={"src/gopher.py": None})
    assert [file.path for file in code.history().files_for("gopher protocol")] == ["src/urls.py"]


def test_a_newer_commit_counts_more_than_an_equal_old_one(code: Code) -> None:
    code.commits(
        [("Speed up the import", "src/old.py"), *[("other", "a")] * 800, ("Speed up the import", "src/new.py")]
    )
    assert [file.path for file in code.history().files_for("speed up the import", 2)] == ["src/new.py", "src/old.py"]


def test_nothing_is_predicted_from_nothing(shop: CodeHistory) -> None:
    assert shop.files_for("") == shop.files_for("quokka zeppelin") == shop.files_for("the of and") == []


@pytest.mark.requirement("N3")
def test_past_attempts_are_found_and_reverts_marked(code: Code) -> None:
    tried = code.commit("Cache sessions in Redis\n\nThe database was too slow.", "src/session.py")
    undone = code.commit(
        f'Revert "Cache sessions in Redis"\n\nThis reverts commit {tried}.\nIt lost logins.', "src/session.py"
    )
    code.commits([("Tidy up", f"src/{number}.py") for number in range(20)])
    found = {one.id: one for one in code.history().commits_for("sessions in redis")}
    assert set(found) == {tried, undone}
    assert (found[tried].reverted_by, found[tried].reason) == ((undone,), "The database was too slow.")
    assert (found[undone].kind, found[undone].reverts) == ("revert", tried)


def test_a_revert_that_was_reverted_does_not_count(code: Code) -> None:
    tried = code.commit("Cache sessions in Redis", "src/session.py")
    undone = code.commit(f'Revert "Cache sessions in Redis"\n\nThis reverts commit {tried}.', "src/session.py")
    code.commit(f'Revert "Revert "Cache sessions in Redis""\n\nThis reverts commit {undone}.', "src/session.py")
    past = code.history().commit(tried)
    assert past is not None
    assert past.reverted_by == ()


def test_a_revert_without_an_id_is_matched_by_its_subject(code: Code) -> None:
    tried = code.commit("Cache sessions in Redis", "src/session.py")
    undone = code.commit('Revert "Cache sessions in Redis"', "src/session.py")
    past = code.history().commit(tried)
    assert past is not None
    assert past.reverted_by == (undone,)


def test_the_subject_of_a_reverted_commit_may_be_long(code: Code) -> None:
    subject = "Cache sessions in Redis for callers that sign in more than once a day (#1234)"
    tried = code.commit(subject, "src/session.py")
    undone = code.commit(f'Revert "{subject}" (#1240)', "src/session.py")
    [past] = [one for one in code.history().commits_for("cache sessions in redis") if one.id == tried]
    assert past.reverted_by == (undone,)


def test_a_commit_that_was_reverted_again_after_its_return_counts_as_reverted(code: Code) -> None:
    tried = code.commit("Cache sessions in Redis", "src/session.py")
    code.commit('Revert "Cache sessions in Redis"', "src/session.py")
    code.commit('Revert "Revert "Cache sessions in Redis""', "src/session.py")
    again = code.commit('Revert "Cache sessions in Redis"', "src/session.py")
    [past] = [one for one in code.history().commits_for("cache sessions in redis") if one.id == tried]
    assert past.reverted_by == (again,)


def test_fixes_are_marked_and_fixed_typos_are_not(code: Code) -> None:
    code.commits([("Fix the rounding of prices", "a"), ("Fix typo in prices", "a"), ("Prefix all prices", "a")])
    assert {one.subject: one.kind for one in code.history().lately(["a"])} == {
        "Fix the rounding of prices": "fix",
        "Fix typo in prices": "",
        "Prefix all prices": "",
    }


def test_commits_that_share_only_common_words_are_not_about_the_question(shop: CodeHistory) -> None:
    assert shop.commits_for("the step of a distributed consensus protocol in the week") == []
    assert shop.commits_for("rotate signing keys")[0].subject.startswith("Rotate signing keys")


@pytest.mark.requirement("N3")
def test_files_that_change_together_pass_the_test(shop: CodeHistory) -> None:
    [one] = shop.companions(["src/cart.py"])
    assert (one.path, one.times, one.of) == ("tests/test_cart.py", 12, 12)
    assert one.chance == pytest.approx(1 / comb(60, 12))
    assert shop.companions(["src/cart.py", "tests/test_cart.py"]) == []
    assert shop.companions(["src/session.py"]) == shop.companions(["docs/"]) == shop.companions([""]) == []


def test_a_file_that_is_moved_but_not_committed_is_named_by_its_new_path(code: Code, shop: CodeHistory) -> None:
    git(code.root, "mv", "tests/test_cart.py", "tests/test_basket.py")
    [first, second, *_] = shop.files_for("prices are rounded twice in the cart")
    assert {first.path, second.path} == {"src/cart.py", "tests/test_basket.py"}
    assert [one.path for one in shop.companions(["src/cart.py"])] == ["tests/test_basket.py"]


def test_a_file_that_is_deleted_but_not_committed_is_not_named(code: Code, shop: CodeHistory) -> None:
    (code.root / "tests/test_cart.py").unlink()
    assert "tests/test_cart.py" not in [one.path for one in shop.files_for("prices are rounded twice in the cart")]
    assert shop.companions(["src/cart.py"]) == []


def test_few_common_commits_are_chance(code: Code) -> None:
    code.commits([("both", "a", "b")] * 3 + [("one", "c")] * 2)
    assert code.history().companions(["a"]) == []


def test_a_sweep_over_many_files_does_not_make_companions(code: Code) -> None:
    swept = [f"src/{number}.py" for number in range(31)]
    code.commits([("Reformat", *swept)] * 8 + [("other", f"docs/{number}") for number in range(80)])
    assert code.history().companions(["src/1.py"]) == []


@pytest.mark.requirement("N3")
def test_the_last_changes_say_why(code: Code) -> None:
    code.commits(
        [
            ("Add it", "src/a.py"),
            (
                "Sign tokens\n\nhttps://example.org/issue/7\n\nOthers could forge them,\nas in June.",
                "src/a.py",
                "src/b.py",
            ),
            ("Other", "docs/x.md"),
        ]
    )
    [newest, first] = code.history().lately(["src/a.py"])
    assert (newest.subject, newest.reason) == ("Sign tokens", "Others could forge them, as in June.")
    assert (first.subject, first.reason) == ("Add it", "")
    assert [one.subject for one in code.history().lately(["src/"], 1)] == ["Sign tokens"]


def test_experts_are_the_authors_of_the_newest_commits(code: Code) -> None:
    code.commits([("one", "src/a.py"), ("two", "src/a.py")])
    code.commits([("three", "src/a.py")], by=BOB)
    [first, second] = code.history().experts(["src/"])
    assert (first.name, first.commits) == ("Ann Person", 2)
    assert (second.name, second.last - first.last) == ("Bob Other", DAY)


def test_the_test_of_significance_is_exact() -> None:
    total, drawn, marked = 40, 9, 12
    for count in range(drawn + 1):
        ways = sum(comb(marked, k) * comb(total - marked, drawn - k) for k in range(count, drawn + 1))
        assert by_chance(count, drawn, marked, total) == pytest.approx(float(Fraction(ways, comb(total, drawn))))
    assert is_significant(0.0001, 50)
    assert not is_significant(0.0001, 200)


def test_a_shallow_clone_answers_from_what_it_has_and_blames_no_one_for_the_rest(code: Code) -> None:
    code.commits([(f"Round prices {number}", "src/cart.py") for number in range(9)])
    clone = code.root.parent / "clone"
    git(code.root, "clone", "-q", "--depth", "3", f"file://{code.root}", str(clone))
    history = CodeHistory(clone, code.root.parent / "shallow.sqlite")
    assert len(history.lately(["src/cart.py"], 99)) == 2, "the oldest commit only seems to have written everything"
    assert [one.commits for one in history.experts(["src/cart.py"])] == [2]
    assert history.problem() == f"code history: {SHALLOW}"
    git(clone, "fetch", "-q", "--unshallow")
    assert len(history.lately(["src/cart.py"], 99)) == 9
    assert history.problem() == ""


def test_a_partial_clone_has_the_history_that_needs_no_missing_object(code: Code) -> None:
    code.commits([(f"Round prices {number}", "src/cart.py") for number in range(3)])
    git(code.root, "mv", "src/cart.py", "src/basket.py")
    git(code.root, "commit", "-qm", "Rename the cart")
    git(code.root, "config", "uploadpack.allowFilter", "true")
    clone = code.root.parent / "clone"
    for way, commits, reason in (("blob:none", 4, ""), ("tree:0", 0, f"code history: {PARTIAL}")):
        git(code.root, "clone", "-q", f"--filter={way}", "--no-checkout", f"file://{code.root}", str(clone / way))
        history = CodeHistory(clone / way, code.root.parent / f"{way[:4]}.sqlite")
        assert len(history.lately(["src/basket.py", "src/cart.py"], 99)) == commits
        assert history.problem() == reason
