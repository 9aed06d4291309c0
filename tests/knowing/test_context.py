"""`context`: the knowledge needed before a change, in reading order, with reasons, within a budget."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest
from mcp import Client
from mcp.types import CallToolResult

from kgd.errors import Invalid, KgdError, Limit, NotFound
from kgd.freshness.freshness import Freshness
from kgd.mcp.server import Surface
from kgd.model.access import Principal, Scope
from kgd.tools import TOOLS, call
from kgd.tools.nodes import overlay_of
from kgd.tools.parameters import input_schema
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, git, upsert
from tests.waiting import until

SESSION = "src/auth/session.py"
Answer = dict[str, Any]


def names(answer: Answer) -> list[str]:
    return [item["name"] for item in answer["items"]]


def item(answer: Answer, name: str) -> Answer:
    (found,) = [one for one in answer["items"] if one["name"] == name]
    return dict(found)


def test_rules_and_traps_come_first_and_merely_related_nodes_last(known: Ask) -> None:
    answer = known.context(paths=[SESSION])
    assert names(answer) == [
        "Security",
        "Auth",
        "Everything",
        "Clocks differ",
        "Keys",
        "JWT",
        "Signing takes 2 ms.",
        "Gateway",
    ]
    assert [one["kind"] for one in answer["items"]] == [
        "molecule",
        "atom",
        "atom",
        "gotcha",
        "pattern",
        "decision",
        "insight",
        "concept",
    ]
    assert answer["unmatched_paths"] == []
    assert "missing" not in answer


def test_each_item_says_why_it_was_selected(known: Ask) -> None:
    answer = known.context(paths=SESSION)
    assert {one["name"]: one["why"] for one in answer["items"]} == {
        "Security": "group of Auth",
        "Auth": f"owns {SESSION}; Everything related to it: asks it who may",
        "Everything": f"owns {SESSION}; related to Auth: asks it who may",
        "Clocks differ": f"about {SESSION}",
        "Keys": "applies to Auth",
        "JWT": "about src/auth/",
        "Signing takes 2 ms.": "mentions auth/session.py",
        "Gateway": "depends on JWT",
    }


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("web/src/auth/session.py renews it", False),
        ("my-auth/session.py renews it", False),
        ("auth/session.pyc is a cache", False),
        ("auth/session.py.orig is left over", False),
        (f"web/{SESSION} differs from {SESSION}.", True),
        ("see `./src/auth/session.py:12`", True),
        (f"/home/ann/shop/{SESSION} renews it", True),
    ],
)
def test_a_text_names_a_file_by_its_path_and_not_by_the_path_of_another_file(
    known: Ask, text: str, named: bool
) -> None:
    known.put(changes=upsert("insight:about-renewal", name="Renewal", content=text))
    reasons = [one["why"] for one in known.context(paths=SESSION)["items"] if one["name"] == "Renewal"]
    assert reasons == (["mentions auth/session.py"] if named else [])


def test_a_fact_that_cites_a_file_of_another_package_does_not_mention_this_one(known: Ask, code: Path) -> None:
    (code / "web/src/auth").mkdir(parents=True)
    (code / "web" / SESSION).write_text("RENEW = 12\n")
    known.put(changes=upsert("insight:web", name="Renewal", data={"cites": [f"web/{SESSION}"]}))
    assert "Renewal" in names(known.context(paths=f"web/{SESSION}"))
    assert "Renewal" not in names(known.context(paths=SESSION))


def test_a_shortened_item_says_how_to_get_the_rest(known: Ask) -> None:
    long = "\n\n".join(f"Rule {number} is as long as rules are, and then some more." for number in range(500))
    known.put(changes=upsert("atom:auth", content=long, expect_version=1))
    answer = known.context(paths=SESSION)
    auth = item(answer, "Auth")
    assert auth["text"].startswith("Rule 0")
    assert 1_000 < len(auth["text"]) < len(long)
    got, text = known.get(**auth["more"], include=["content"], budget=10_000), ""
    while True:
        text += got["nodes"][0]["content"]
        if "cursor" not in got:
            break
        got = known.get(**auth["more"], include=["content"], budget=10_000, cursor=got["cursor"])
    assert text == long
    assert all(
        one.get("text", "") == known.get(uris=one["uri"])["nodes"][0].get("content", "")
        for one in answer["items"]
        if "more" not in one
    )


@pytest.mark.slow
def test_an_answer_never_exceeds_its_budget_and_says_what_it_left_out(known: Ask) -> None:
    known.put(
        changes=[
            upsert(
                f"gotcha:trap-{number}",
                summary=f"Trap {number}",
                content="Words and words. " * number,
                relations=[{"type": "about", "target": f"./{SESSION}"}],
            )
            for number in range(60)
        ]
    )

    def known_in_all() -> int:
        everything = known.context(paths=[SESSION, "src/new.py"], budget=100_000)
        left_out: list[int] = [cut["count"] for cut in everything["cut"] if cut["what"] != "code"]
        return len(everything["items"]) + sum(left_out)

    until(lambda: known.status()["code"]["state"] == "ready")
    whole, counts = 68, list[int]()
    until(lambda: known_in_all() == whole)  # contents and symbols of files arrive once the code is read
    for budget in (200, 201, 230, 300, 450, 700, 1_000, 2_000, 4_000, 9_000, 100_000):
        answer = known.context(paths=[SESSION, "src/new.py", "lib/x.py"], budget=budget)
        assert len(orjson.dumps(answer)) <= min(4 * budget, 40_000), budget
        cut = {one["what"]: one["count"] for one in answer["cut"]}
        sides = ("changes", "changed_together", "unmatched_paths", "described", "code")
        if budget >= 300:
            assert len(answer["items"]) + sum(n for what, n in cut.items() if what not in sides) == whole, budget
        counts.append(len(answer["items"]))
        assert answer == known.context(paths=[SESSION, "src/new.py", "lib/x.py"], budget=budget)
    assert counts == sorted(counts)
    assert counts[-1] > 60


@pytest.mark.slow
def test_nodes_hidden_by_too_many_relations_are_counted(known: Ask) -> None:
    known.put(
        changes=[
            upsert(f"insight:fact-{number}", relations=[{"type": "about", "target": f"./{SESSION}"}])
            for number in range(210)
        ]
    )
    assert {"what": "relations", "count": 11} in known.context(paths=SESSION)["cut"]


def test_every_item_is_named_before_any_gets_a_long_text(known: Ask) -> None:
    known.put(changes=upsert("molecule:security", content="A long rule. " * 2_000, expect_version=1))
    answer = known.context(paths=SESSION, budget=1_500)
    assert names(answer) == names(known.context(paths=SESSION))
    assert 240 < len(item(answer, "Security")["text"]) < 5_000


def test_a_budget_that_holds_nothing_is_refused(known: Ask) -> None:
    with pytest.raises(Invalid, match="200"):
        known.context(paths=SESSION, budget=10)
    with pytest.raises(Invalid, match="question"):
        known.context()
    with pytest.raises(Limit, match="directories"):
        known.context(paths=[f"src/{number}.py" for number in range(501)])


def test_a_path_may_be_written_in_any_way(known: Ask, code: Path) -> None:
    until(lambda: known.context(paths=[SESSION])["changes"])  # the code's history is read in the background
    until(lambda: "code" in known.context(paths=[SESSION]))  # and so is the code
    wanted = known.context(paths=[SESSION])
    for spelling in (
        "./src/auth/session.py",
        "src\\auth\\session.py",
        f"{code}/src/auth/session.py",
        "src/auth/session.py:2",
        "file://shop/src/auth/session.py",
        f"file://{code}/src/auth/session.py",
        '["src/auth/session.py"]',
        "src//auth/./session.py",
    ):
        found = known.context(paths=spelling)
        assert bool(found.pop("lines", ())) == spelling.endswith(":2")
        assert found == wanted, spelling


@pytest.mark.slow
def test_a_path_from_where_the_caller_is_and_several_in_one_text(known: Ask, code: Path) -> None:
    there = Ask(replace(known.session, cwd=code / "src" / "auth"))
    assert there.context(paths="session.py") == known.context(paths=SESSION)
    assert there.context(paths="./session.py") == known.context(paths=SESSION)
    assert there.context(paths="../checkout.py") == known.context(paths="src/checkout.py")
    for here in (".", "./", "../auth", "../auth/"):
        assert there.context(paths=here) == known.context(paths="src/auth/"), here
    both = known.context(paths="src/auth/session.py, src/checkout.py\nlib/none.py")
    assert both == known.context(paths=["src/auth/session.py", "src/checkout.py", "lib/none.py"])
    assert known.context(paths="docs/My File.md")["unmatched_paths"] == ["docs/My File.md"]


@pytest.mark.slow
def test_another_work_tree_of_the_repository_has_the_same_paths(known: Ask, code: Path, tmp_path: Path) -> None:
    git(code, "worktree", "add", "-q", str(tmp_path / "feature"))
    there = Ask(replace(known.session, cwd=tmp_path / "feature", found=None))
    assert names(there.context(paths=str(tmp_path / "feature" / SESSION))) == names(known.context(paths=SESSION))


def test_a_path_outside_the_code_is_unmatched_and_no_error(known: Ask) -> None:
    answer = known.context(paths=["/etc/passwd", "../x", SESSION, "lib/new.py", "https://example.org/a"])
    assert answer["unmatched_paths"] == ["lib/new.py", "/etc/passwd", "../x", "https://example.org/a"]
    assert "Auth" in names(answer)


def test_a_directory_stands_for_its_files(known: Ask) -> None:
    answer = known.context(paths=["src/", "docs"])
    assert item(answer, "Auth")["paths"] == ["src/auth/keys.py", SESSION]
    assert {"Clocks differ", "Nothing to do with it."} <= set(names(answer))
    assert answer["unmatched_paths"] == ["docs/My File.md"]


def test_file_names_of_any_bytes_are_shown_as_text(known: Ask, code: Path, ws: Workspace) -> None:
    for folder in (b"src/auth/", b"odd/"):
        os.makedirs(os.fsencode(code) + b"/" + folder, exist_ok=True)
        with open(os.fsencode(code) + b"/" + folder + b"a\xff\n.py", "w") as file:
            file.write("x = 1\n")
    overlay = overlay_of(ws)
    assert overlay is not None
    overlay.rescan()
    answer = known.context(paths=["src/auth/", "odd/"])
    assert "src/auth/a\\xff\n.py" in item(answer, "Auth")["paths"]
    assert answer["unmatched_paths"] == ["odd/a\\xff\n.py"]
    assert orjson.dumps(answer)


def test_paths_without_an_area_that_a_fact_is_about_are_listed_as_described(known: Ask) -> None:
    known.put(changes=upsert("gotcha:logo", summary="s", relations=[{"type": "about", "target": "./logo.bin"}]))
    answer = known.context(paths=["README.md", "logo.bin", SESSION])
    assert answer["unmatched_paths"] == ["README.md", "logo.bin"]
    assert answer["described"] == ["logo.bin"]
    assert "2 of the paths belong to no area, and nothing names 1 of them by path" in answer["missing"]["message"]


def test_a_path_without_a_file_is_reported_as_a_possible_typo(ask: Ask) -> None:
    assert (
        "src/auth/sesion.py is not in the code tree yet"
        in ask.context(paths="src/auth/sesion.py")["missing"]["message"]
    )
    both = ask.context(paths=["README.md", "new/a.py", "new/b.py"])["missing"]["message"]
    assert "2 of them (new/a.py, new/b.py) are not in the code tree yet" in both
    assert "so far" not in ask.context(paths="README.md")["missing"]["message"]


def test_many_traps_about_a_file_do_not_hide_the_decisions_about_it(ask: Ask) -> None:
    about = {"relations": [{"type": "about", "target": f"./{SESSION}"}]}
    ask.put(
        changes=[
            *(upsert(f"gotcha:g{n}", name=f"Trap {n}", summary=f"One of many, number {n}", **about) for n in range(60)),
            upsert("decision:d", name="One signer", **about),
            upsert("task:t", name="Rotate", **about),
        ]
    )
    answer = ask.context(paths=SESSION, budget=1_500)
    kinds = [one["kind"] for one in answer["items"]]
    assert 15 <= kinds.count("gotcha") < 60
    assert kinds[-2:] == ["decision", "task"]
    assert answer["cut"] == [{"what": "gotcha", "count": 60 - kinds.count("gotcha")}]


def paths_of(suggested: dict[str, Any]) -> Any:
    """The paths of the area that a suggested call creates."""
    arguments = suggested["arguments"]
    return arguments["paths"] if "paths" in arguments else arguments["changes"][0]["data"]["paths"]


@pytest.mark.slow
def test_every_call_that_an_answer_suggests_fits_the_schema_of_its_tool(ask: Ask) -> None:
    ask.put(changes=upsert("task:t", name="Rotate keys", data={"files": [SESSION]}))
    answers = [
        ask.context(paths=["src/auth/keys.py", SESSION]),
        ask.context(task="task:t"),
        ask.context(paths="docs"),
        ask.context(task="task:t", paths=SESSION),
        ask.context(question="an unknown subject"),
    ]
    suggested = [one for answer in answers for one in answer.get("missing", {}).get("record", ())]
    ask.put(changes=upsert("atom:long", content="A long rule. " * 2_000, data={"paths": ["docs/**"]}))
    cut = [one for one in ask.context(paths="docs")["items"] if "more" in one]
    suggested += [{"tool": "get", "arguments": one["more"]} for one in cut]
    suggested += [{"tool": "put", "arguments": ask.traverse(start="src", context_id="fresh")["hint"]["put"]}]
    assert {one["tool"] for one in suggested} == {"put", "manage_graph", "get"}
    for one in suggested:
        jsonschema.validate(one["arguments"], input_schema(TOOLS[one["tool"]].Params))
        assert "<task>" not in str(one["arguments"])


def test_an_area_of_a_task_is_proposed_with_that_task(ask: Ask) -> None:
    ask.put(changes=upsert("task:t", name="Rotate keys"))
    area = ask.context(task="task:t", paths=SESSION)["missing"]["record"][0]
    filled = orjson.loads(orjson.dumps(area["arguments"]).replace(b"<the area>", b"Auth"))
    assert call(ask.session, area["tool"], filled)["success"]


def test_without_knowledge_the_answer_says_so_and_how_to_record_it(ask: Ask) -> None:
    answer = ask.context(paths=["src/auth/keys.py", SESSION])
    assert answer["items"] == []
    missing = answer["missing"]
    assert "2 of the paths belong to no area, and nothing names them by path" in missing["message"]
    area, trap = missing["record"]
    assert paths_of(area) == ["src/auth/**"]
    filled = orjson.loads(orjson.dumps(area["arguments"]).replace(b"<the area>", b"Auth"))
    assert call(ask.session, area["tool"], filled)["created"] == ["atom://shop/Auth"]
    call(ask.session, trap["tool"], trap["arguments"])
    answer = ask.context(paths=["src/auth/keys.py", SESSION])
    assert "missing" not in answer
    assert [one["kind"] for one in answer["items"]] == ["atom", "gotcha"]


def test_an_area_is_not_proposed_for_a_folder_that_has_areas_below(known: Ask) -> None:
    known.put(changes=upsert("atom:session", data={"paths": ["lib/pay/stripe/*.py"]}))
    for gap, proposed in (
        ("lib/pay/__init__.py", ["lib/pay/__init__.py"]),
        ("lib/pay/stripe/notes.md", ["lib/pay/stripe/notes.md"]),
        ("lib/mail/send.py", ["lib/mail/**"]),
        ("lib/pay/paypal/client.py", ["lib/pay/paypal/**"]),
        ("README.md", ["README.md"]),
    ):
        assert paths_of(known.context(paths=gap)["missing"]["record"][0]) == proposed, gap


@pytest.mark.slow
def test_every_area_of_many_brings_its_memories(ask: Ask) -> None:
    ask.put(
        changes=[
            change
            for number in range(20)
            for change in (
                upsert(f"molecule:m{number}", content="What holds for all."),
                upsert(
                    f"atom:a{number}",
                    content="What is so. " * 60,
                    data={"paths": [f"lib/{number}.py"], "moleculeId": f"molecule://shop/m{number}"},
                ),
                upsert(
                    f"gotcha:g{number}",
                    summary=f"Trap {number}",
                    relations=[{"type": "applies_to", "target": f"atom:a{number}"}],
                ),
            )
        ]
    )
    answer = ask.context(paths=[f"lib/{number}.py" for number in range(20)], budget=6_000)
    assert {one["name"] for one in answer["items"] if one["kind"] == "gotcha"} == {
        f"Trap {number}" for number in range(20)
    }
    tight = ask.context(paths=[f"lib/{number}.py" for number in range(15)])
    assert [one["kind"] for one in tight["items"]].count("gotcha") == 15
    assert tight["cut"] == []


def test_the_rules_of_the_areas_come_before_merely_related_nodes(ask: Ask) -> None:
    near = [
        upsert(
            f"atom:near{number}",
            content="About something else. " * 30,
            data={"paths": [f"n{number}/**"]},
            relations=[{"type": "related_to", "target": "atom:own"}],
        )
        for number in range(30)
    ]
    rules = "A rule of this area. " * 30
    ask.put(changes=[upsert("atom:own", content=rules, data={"paths": ["src/**"]}), *near])
    answer = ask.context(paths=SESSION, budget=1_100)
    assert item(answer, "own")["text"] == rules.strip()
    assert any(one["what"] == "atom" and one["count"] > 5 for one in answer["cut"])
    assert all("text" not in one for one in answer["items"][1:])


def test_areas_covered_by_a_narrower_area_come_after_the_others(ask: Ask) -> None:
    ask.put(
        changes=[
            upsert("atom:words", data={"paths": ["apps/*/words/**", "tools/words/merge/run.py"]}),
            upsert("atom:blog", data={"paths": ["apps/blog/**"]}),
            upsert("atom:docs", data={"paths": ["docs/**"]}),
        ]
    )
    wording = ["apps/blog/words/de.txt", "docs/index.md"]
    assert names(ask.context(paths=wording)) == ["words", "docs", "blog"]
    assert names(ask.context(paths=[*wording, "apps/blog/views.py"])) == ["words", "blog", "docs"]


def test_memories_about_the_file_are_kept_before_memories_about_its_area(ask: Ask) -> None:
    hanging = [
        upsert(
            f"{kind}:{kind}{number}",
            summary=f"What holds in all of the area, number {number}",
            relations=[{"type": "applies_to", "target": "atom:own"}],
        )
        for kind in ("gotcha", "pattern", "decision")
        for number in range(12)
    ]
    ask.put(
        changes=[
            upsert("atom:own", data={"paths": ["src/**"]}),
            *hanging,
            upsert(
                "insight:this", summary="Of this very file.", relations=[{"type": "about", "target": f"./{SESSION}"}]
            ),
        ]
    )
    answer = ask.context(paths=SESSION, budget=1_000)
    assert [names(answer)[0], names(answer)[-1]] == ["own", "Of this very file."]
    assert {"what": "decision", "count": 11} in answer["cut"], "the best of each kind is kept"


def test_an_empty_answer_says_why_and_how_to_record_knowledge(known: Ask) -> None:
    with pytest.raises(Invalid, match=r"outside the code tree of the workspace \(/etc/passwd\)"):
        known.context(paths="/etc/passwd")
    assert "similar: README.md" in known.context(paths="READNE.md")["missing"]["message"]
    assert known.context(paths="READNE.md")["unknown_paths"] == [
        "there is no file READNE.md in the code tree; similar: README.md"
    ]
    answer = known.context(question="zygomorphic quux?")
    assert answer["items"] == []
    assert answer["missing"]["record"][0]["tool"] == "put"


@pytest.mark.requirement("M7")
def test_a_task_brings_memories_by_its_keywords_its_files_and_what_it_depends_on(known: Ask) -> None:
    known.put(
        changes=[
            upsert("task:before", name="Sign sessions", summary="Done in May.", data={"status": "completed"}),
            upsert(
                "task:rotate",
                name="Rotate keys",
                type="task",
                data={
                    "sections": [
                        {"title": "Objective", "content": "Rotate the webhook keys without an outage."},
                        {"title": "Acceptance Criteria", "content": "- the ledger stays whole"},
                        {
                            "title": "Context Files",
                            "content": "Look at these:\n- `src/auth/keys.py` - where they are\n",
                        },
                    ]
                },
                relations=[{"type": "depends_on", "target": "task:before"}],
            ),
            upsert(
                "decision:webhook",
                name="Webhooks retry",
                tags=["webhook"],
                summary="Three times.",
                content="In full: a long story.",
            ),
            upsert("pattern:ledger", name="Ledger first", tags=["ledger", "webhook"], summary="Write, then act."),
            upsert("gotcha:outage", name="Outages", tags=["outage"], summary="They are announced."),
            upsert("insight:cooking", name="Soup", tags=["soup"], summary="Needs salt."),
        ]
    )
    answer = known.context(task="task://shop/rotate")
    assert {"Sign sessions", "Webhooks retry", "Ledger first", "Outages", "Auth", "Security"} <= set(names(answer))
    assert not {"Soup", "Rotate keys"} & set(names(answer))
    assert item(answer, "Sign sessions")["why"] == "the task depends on it"
    assert item(answer, "Ledger first")["why"].startswith("tags: ledger, webhook")
    assert item(answer, "Auth")["why"].startswith("owns src/auth/keys.py")
    assert answer == known.context(task="task:rotate") == known.context(task="rotate")
    by_text = known.context(task="Rotate the webhook keys without an outage")
    assert {"Webhooks retry", "Ledger first", "Outages"} <= set(names(by_text))


@pytest.mark.requirement("M7", "M10")
def test_of_a_memory_with_a_long_detail_the_summary_comes_and_the_rest_when_asked_for(known: Ask) -> None:
    known.put(
        changes=upsert(
            "decision:webhook",
            tags=["webhook"],
            summary="Three times.",
            detail="# Webhooks\n\n" + "Because of reasons. " * 50,
        )
    )
    found = item(known.context(task="make the webhook idempotent"), "Three times.")
    assert "reasons" not in found.get("text", "")
    (node,) = known.get(**found["more"], include=["content"])["nodes"]
    assert "Because of reasons." in node["detail"]["text"]


def test_a_task_that_is_not_there_is_not_found_and_a_sentence_is_its_text(known: Ask) -> None:
    with pytest.raises(NotFound, match="task"):
        known.context(task="task://shop/nothing")
    with pytest.raises(NotFound, match="text"):
        known.context(task="https://tracker.example.org/7")
    assert known.context(task="rotate the signing keys of sessions")["items"]
    known.put(changes=[upsert("task:shop/7", summary="deep", data={"sections": {"Context Files": SESSION}})])
    assert "Clocks differ" in names(known.context(task="shop/7"))


def test_the_trap_that_a_task_is_about_comes_before_the_rules_of_an_area_with_one_word_in_common(ask: Ask) -> None:
    ask.put(
        changes=[
            upsert("atom:forms", name="Forms", content="Every field is checked in the browser and on the server."),
            upsert("atom:login", name="Login", content="The form's token is checked first, then the password."),
            upsert(
                "gotcha:partial-refunds",
                name="Partial refunds add up",
                content="Two partial refunds can be more than the payment. Only our own check prevents it.",
            ),
        ]
    )
    assert names(ask.context(task="Remove our refund check"))[0] == "Partial refunds add up"
    assert names(ask.context(task="Check each field of the forms"))[0] == "Forms"


def test_the_hits_for_a_task_come_in_the_order_of_a_search(ask: Ask) -> None:
    ask.put(
        changes=[
            upsert(
                "atom:refunds",
                name="Refunds",
                content="Money goes back to the card of the payment.",
                data={"paths": ["src/auth/**"]},
            ),
            upsert("decision:limits", name="Refund limits", content="A refund above the limit needs two people."),
            upsert("gotcha:cards", name="Closed cards", content="A refund to a closed card returns after a week."),
        ]
    )
    task = "Raise the refund limit that needs two people"
    found = [one["uri"] for one in ask.search(query=task)["hits"]]
    assert found[0] == "decision://shop/limits"
    assert [one["uri"] for one in ask.context(task=task)["items"]][: len(found)] == found
    with_a_file = names(ask.context(task=task, paths=SESSION))
    assert with_a_file[:2] == ["Refund limits", "Refunds"], "weaker hits come after the rules of the file"


def test_a_question_is_answered_by_its_best_hits_and_then_their_areas(known: Ask) -> None:
    answer = known.context(question="why do token times differ?")
    assert names(answer)[0] == "Clocks differ"
    assert item(answer, "Clocks differ")["why"].startswith("found by")
    assert {"Auth", "Security"} <= set(names(answer))


def test_a_question_in_other_words_is_answered_by_meaning(known: Ask) -> None:
    about = [{"type": "about", "target": "./src/checkout.py", "weight": 0.25}]
    known.put(
        changes=[
            upsert("garage", name="Garage", content="The automobile was repaired by a mechanic.", relations=about),
            upsert("gotcha:till", name="Till", summary="Amounts are whole cents.", relations=about),
        ]
    )
    shop = known.session.daemon.workspace("shop")
    shop.meaning.follow()
    assert shop.meaning.catch_up(60)
    answer = known.context(question="who fixed our broken car and truck engine?")
    assert names(answer)[0] == "Garage"
    assert item(answer, "Garage")["why"].startswith("found by meaning alone")
    assert "Till" not in names(answer), "it is only about the same file"
    assert "Till" in names(known.context(question="was the automobile repaired by a mechanic?"))


def test_a_question_without_hits_waits_for_the_latest_writes(ask: Ask) -> None:
    ask.session.daemon.workspace("shop").meaning.follow()
    ask.put(changes=upsert("garage", name="Garage", content="The automobile was repaired by a mechanic."))
    assert names(ask.context(question="who fixed our broken car and truck engine?")) == ["Garage"]


@pytest.mark.slow
def test_the_text_of_a_document_in_the_code_tree_is_part_of_the_answer(ask: Ask, code: Path) -> None:
    (code / "docs" / "deploy.md").write_text("# Deploying\n\nMigrations run before the new pods start.\n")
    uri = "chunk://shop/docs/deploy.md/0001"
    until(lambda: uri not in ask.get(uris=uri)["missing"])
    until(lambda: ask.search(query="migrations")["code"])
    answer = ask.context(question="when do migrations run?")
    assert "before the new pods start" in next(one["text"] for one in answer["code"] if one["uri"] == uri)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sentence",
    [
        "how long do sessions last?",
        "change how long, at most, sessions last",
        "session length",
        "auth.SessionError: sessions last '15' minutes",
        "change the length of sessions in src/auth/session.py",
    ],
)
def test_a_sentence_given_as_a_path_is_asked_as_a_question(known: Ask, sentence: str) -> None:
    answer = known.context(paths=[sentence, "src/checkout.py"])
    both = known.context(question=sentence, paths=["src/checkout.py"])
    assert "Auth" in names(answer)
    assert (names(answer), answer["unmatched_paths"]) == (names(both), both["unmatched_paths"])


@pytest.mark.parametrize("path", ["docs/My Next File.md", "setup.py, tox.ini, my notes.md", "a b c/d"])
def test_a_path_with_blanks_is_no_sentence(ask: Ask, path: str) -> None:
    answer = ask.context(paths=path)
    assert answer["unmatched_paths"] == [one.strip() for one in path.split(",")]
    assert "Pass a sentence as `task` or `question`." in answer["missing"]["message"]


def test_the_reason_for_a_neighbour_names_the_path_of_a_folder(ask: Ask) -> None:
    about = [{"type": "about", "target": "./src/auth", "weight": 0.25}]
    near = upsert("insight://shop/near", summary="Sessions renew themselves.", relations=about)
    cites = upsert("insight://shop/cites", summary="The readme is old.", data={"cites": ["README.md"]}, relations=about)
    ask.put(changes=[near, cites])
    assert item(ask.context(paths="README.md"), "Sessions renew themselves.")["why"] == "about src/auth/"


def test_a_folder_with_the_name_of_a_sentence_is_a_path(ask: Ask, code: Path) -> None:
    (code / "all we know").mkdir()
    (code / "all we know" / "x.py").write_text("")
    until(lambda: ask.context(paths="all we know")["unmatched_paths"] == ["all we know/x.py"])


@pytest.mark.parametrize("name", ["all we know/x.py", "one, two.md", "notes:12", "who did it?"])
def test_a_name_means_the_same_to_the_holder_of_a_token_who_may_see_the_file(ask: Ask, code: Path, name: str) -> None:
    (code / name).parent.mkdir(exist_ok=True)
    (code / name).write_text("x\n")
    folder = name.partition("/")[0]
    until(lambda: [one.rstrip("/") for one in ask.context(paths=folder)["unmatched_paths"]] == [name])

    def paths_of(*globs: str) -> list[str]:
        principal = Principal("tok00001", "bob", "person", (Scope.of("shop", ["read"], globs),))
        there = Ask(Session(ask.session.daemon, client="claude", principal=principal))
        return [one.rstrip("/") for one in there.context(paths=folder)["unmatched_paths"]]

    until(lambda: paths_of("/**") == [name], say=lambda: paths_of("/**"))  # once the file is in the index
    assert paths_of("/src/**") != [name] or folder == name, "a hidden file is not revealed"


@pytest.mark.slow
def test_recent_changes_cover_the_areas_and_the_code(known: Ask, code: Path) -> None:
    known.put(changes=upsert("task:t7", name="t7"))
    for number in range(5):
        call(
            known.session,
            "manage_changelog",
            {
                "operation": "append",
                "parentType": "atom",
                "parentId": "atom://shop/auth",
                "taskId": "task:t7",
                "summary": f"change {number}",
            },
        )
    for number in range(8):
        (code / "README.md").write_text(f"other {number}\n")
        git(code, "commit", "-qam", "readme")
    for number in range(3):
        (code / SESSION).write_text(f"{number}\n")
        (code / "src/auth/keys.py").write_text(f"{number}\n")
        git(code, "commit", "-qam", f"sign: {number}\n\nTokens could be forged until {number}.")
    (code / "README.md").write_text("other\n")
    git(code, "commit", "-qam", "readme")
    answer = known.context(paths=SESSION)
    assert [one["what"] for one in answer["changes"]] == [
        "change 4",
        "change 3",
        "change 2",
        "sign: 2",
        "sign: 1",
        "sign: 0",
        "code",
    ]
    assert (answer["changes"][0]["area"], answer["changes"][0]["task"]) == ("atom://shop/auth", "task://shop/t7")
    newest = answer["changes"][3]
    assert git(code, "rev-parse", "HEAD~1").startswith(newest["commit"])
    assert (newest["paths"], newest["why"]) == ([SESSION], "Tokens could be forged until 2.")
    [author] = answer["known_by"]
    assert (author["name"], author["commits"]) == (newest["by"], 4)
    assert answer["changed_together"] == [{"path": "src/auth/keys.py", "count": 4, "of": 4}]
    (code / SESSION).write_text("newer\n")
    git(code, "commit", "-qam", "newer")
    assert known.context(paths=SESSION)["changes"][3]["what"] == "newer"


@pytest.mark.slow
def test_code_without_history_has_no_changes(known: Ask, code: Path) -> None:
    subprocess.run(["rm", "-rf", str(code / ".git" / "refs"), str(code / ".git" / "logs")], check=True)
    (code / ".git" / "refs").mkdir()
    answer = known.context(paths=SESSION)
    assert answer["changes"] == []
    assert "Auth" in names(answer)


@pytest.mark.slow
def test_stale_facts_are_marked_and_come_later(known: Ask, code: Path, ws: Workspace) -> None:
    known.put(
        changes=[
            upsert("gotcha:a-first", summary="Signing is slow.", data={"cites": [SESSION]}),
            upsert(
                "gotcha:b-second", summary="Tokens are long.", relations=[{"type": "about", "target": f"./{SESSION}"}]
            ),
        ]
    )
    freshness = Freshness.of(ws)
    assert freshness.settle()
    answer = known.context(paths=SESSION)
    assert "unverified" not in item(answer, "Signing is slow.")
    assert item(answer, "Signing is slow.")["why"] == f"cites {SESSION}"
    (code / SESSION).write_text("def sign(token, key):\n    return key\n")
    freshness.files_changed([SESSION])
    assert freshness.settle()
    answer = known.context(paths=SESSION)
    assert SESSION in item(answer, "Signing is slow.")["unverified"]["reason"]
    traps = [one["name"] for one in answer["items"] if one["kind"] == "gotcha"]
    assert traps[-1] == "Signing is slow."
    known.put(changes={"op": "verify", "uri": "gotcha:a-first"})
    assert "unverified" not in item(known.context(paths=SESSION), "Signing is slow.")


@pytest.fixture
def holder(known: Ask) -> Ask:
    scope = Scope.of("shop", ["read"], ["/auth/**", "/auth", "/src/auth/session.py", "/skew"])
    principal = Principal("tok00001", "billing-agent", "agent", (scope,))
    return Ask(Session(known.session.daemon, client="claude", principal=principal))


def test_a_restricted_caller_gets_only_readable_nodes(holder: Ask, known: Ask) -> None:
    answer = holder.context(paths=[SESSION, "src/auth/"])
    assert names(answer) == ["Auth", "Clocks differ"]
    text = orjson.dumps(answer)
    for hidden in (b"Security", b"Everything", b"JWT", b"Gateway", b"keys.py", b"seed", b"security"):
        assert hidden not in text
    assert answer["changes"] == []
    found = holder.context(question="token times differ")
    assert names(found) == ["Clocks differ", "Auth"]
    assert [one["name"] for one in found.get("code", ())] in ([], ["session.py"])
    with pytest.raises(KgdError):
        holder.context(task="task://shop/secret")


@pytest.mark.slow
def test_a_remote_caller_cannot_use_paths_of_this_machine(holder: Ask, code: Path) -> None:
    assert holder.context(paths="src/auth/session.py")["items"]
    with pytest.raises(KgdError):
        holder.context(paths=os.fspath(code / SESSION))


@pytest.mark.anyio
async def test_an_mcp_client_asks_once_and_continues_with_the_answer(known: Ask) -> None:
    async with Client(Surface(known.session.daemon).server) as client:

        async def ask(tool: str, **arguments: Any) -> Answer:
            result = await client.call_tool(tool, {"workspace": "shop", **arguments})
            assert isinstance(result, CallToolResult)
            assert not result.is_error
            assert result.structured_content is not None
            content: Answer = result.structured_content
            return content

        answer = await ask("context", paths=[SESSION])
        assert names(answer)[:2] == ["Security", "Auth"]
        known.put(changes=upsert("atom:auth", content="A long rule. " * 2_000, expect_version=1))
        auth = item(await ask("context", paths=[SESSION]), "Auth")
        assert (await ask("get", **auth["more"]))["nodes"][0]["content"].startswith(auth["text"][:1_000])


def test_an_issue_leads_to_the_areas_that_were_written_for_it(ask: Ask) -> None:
    issue = "https://tracker.example/7"
    ask.manage_graph(operation="create", entityType="atom", name="Auth", paths=["src/auth/**"], createdByTaskId=issue)
    ask.put(changes=upsert("gotcha:g", summary="s", relations=[{"type": "connected_to", "target": issue}]))
    answer = ask.context(task=issue)
    assert names(answer) == ["Auth", "s"]
    assert answer["items"][0]["why"] == "written for the task"


def test_a_task_whose_name_has_blanks_is_found_by_its_short_address(ask: Ask) -> None:
    ask.put(changes=upsert("decision:signer", name="One signer", summary="One key signs everything"))
    ask.put(
        changes={
            "op": "upsert",
            "type": "task",
            "name": "Two words",
            "summary": "rotate",
            "relations": [{"type": "depends_on", "target": "decision:signer", "weight": 0.1}],
        }
    )
    assert ask.context(task="task:Two words")["items"] == ask.context(task="task://shop/Two%20words")["items"] != []
    sentence = ask.context(task="task: find out why one signer signs")
    assert [one["uri"] for one in sentence["items"]][:1] == ["decision://shop/signer"], (
        "words, where no task is so called"
    )


def test_a_content_that_begins_with_the_summary_does_not_repeat_it(ask: Ask) -> None:
    about = {"relations": [{"type": "about", "target": f"./{SESSION}"}]}
    contents = {"same": "Retry once.", "more": "Retry once. Twice charges twice.", "other": "Retry once.5 s are over."}
    ask.put(
        changes=[upsert(f"gotcha:{n}", summary="Retry once", content=text, **about) for n, text in contents.items()]
    )
    items = ask.context(paths=[SESSION])["items"]
    texts = {
        one["uri"].rpartition("/")[2]: (one.get("text"), "more" in one) for one in items if one["kind"] == "gotcha"
    }
    assert texts == {
        "same": (None, False),
        "more": ("Twice charges twice.", False),
        "other": ("Retry once.5 s are over.", False),
    }


@pytest.mark.slow
def test_a_name_among_the_paths_is_a_question_about_the_symbol(ask: Ask, code: Path) -> None:
    (code / SESSION).write_text("class Session:\n    def renew_early(self):\n        pass\n")
    symbol = f"symbol://shop/{SESSION}/Session.renew_early"
    until(lambda: ask.get(uris=symbol)["nodes"])
    ask.put(changes=upsert("gotcha:renewal", summary="renew_early must stay idempotent."))
    for asked in ("renew_early", "renew_early()", "Session.renew_early", "`renew_early`", "renew_early?"):
        until(lambda asked=asked: ask.context(paths=[asked]).get("code"))  # type: ignore[misc]
        answer = ask.context(paths=[asked])
        assert answer["code"][0]["uri"] == symbol
        assert [one["uri"] for one in answer["items"]] == ["gotcha://shop/renewal"]
        assert answer.keys().isdisjoint({"unknown_paths", "missing"})
    both = ask.context(paths=["README.md", "renew_early"])
    assert both["code"][0]["uri"] == symbol
    assert both["unmatched_paths"] == ["README.md"]


def test_a_word_that_is_neither_a_path_nor_a_symbol_is_asked_about_too(ask: Ask) -> None:
    ask.put(changes=upsert("gotcha:renewal", summary="Frobnication is idempotent."))
    answer = ask.context(paths=["frobnication"])
    assert [one["uri"] for one in answer["items"]] == ["gotcha://shop/renewal"]
    assert answer["unknown_paths"] == ["there is no file or folder frobnication in the code tree"]
    assert "missing" not in answer
    assert "not in the code tree yet" in ask.context(paths=["sesion.py"])["missing"]["message"]


def test_an_unknown_name_of_which_nothing_is_known_may_mean_a_new_file(ask: Ask) -> None:
    until(lambda: "notes" not in ask.context(paths=["Dockerfile"]))  # the code is read
    told = ask.context(paths=["Dockerfile"])["missing"]["message"]
    assert told.startswith("The code has no file, folder or symbol called Dockerfile; write ./Dockerfile for a new")
    assert "Dockerfile is not in the code tree yet" in ask.context(paths=["./Dockerfile"])["missing"]["message"]
