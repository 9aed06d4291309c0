"""`put`: a set of changes becomes one commit, or nothing does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kgd.errors import Invalid, InvariantViolation, KgdError, Limit, NotFound, Refused, Stale
from kgd.model.change import Author, Delete, Upsert
from kgd.model.uri import Uri
from kgd.workspace.proposals import proposals
from kgd.workspace.workspace import Workspace
from tests import builders
from tests.surfaces.conftest import Ask, git, upsert
from tests.waiting import until


@pytest.mark.requirement("B3")
@pytest.mark.requirement("E15")
def test_a_set_of_changes_is_one_commit_with_author_message_and_paths(ask: Ask) -> None:
    answer = ask.put(
        changes=[
            upsert("auth", summary="roles and rights"),
            upsert("keys", summary="signs"),
            {"op": "relate", "source": "auth", "target": "keys", "type": "depends_on", "weight": 0.5},
        ],
        message="auth: keys sign tokens",
    )
    assert [node["version"] for node in answer["nodes"]] == [1, 1]
    assert answer["created"] == ["concept://shop/auth", "concept://shop/keys"]
    (commit,) = ask.history(commit=answer["commit"])["commits"]
    assert commit["author"] == "Ann Person"
    assert commit["client"] == "test-client 1.0"
    assert commit["message"] == "auth: keys sign tokens"
    assert commit["nodes"] == ["concept://shop/auth", "concept://shop/keys"]


@pytest.mark.requirement("B2")
def test_a_written_node_is_a_yaml_file_in_git(ask: Ask, ws: Any) -> None:
    ask.put(changes=upsert("auth", summary="roles and rights", content="Tokens.\n"))
    text = git(ws.layout.git_dir, "show", "refs/kgd/head:nodes/concept/auth.yaml")
    assert text.startswith("uri: concept://shop/auth\n")
    assert "summary: roles and rights\n" in text


@pytest.mark.requirement("U1")
@pytest.mark.parametrize("type", ["decision", "gotcha", "meeting", "API endpoint"])
def test_the_same_type_and_name_address_the_same_node(ask: Ask, type: str) -> None:
    change = {"op": "upsert", "type": type, "name": "Use a/b", "summary": "one"}
    first = ask.put(changes=change)
    again = ask.put(changes={**change, "summary": "two"})
    (uri,) = first["created"]
    assert uri == f"{type if type in ('decision', 'gotcha') else 'concept'}://shop/Use%20a%2Fb"
    assert again["created"] == []
    (node,) = ask.get(uris=uri)["nodes"]
    assert (node["type"], node["name"], node["summary"], node["version"]) == (type, "Use a/b", "two", 2)


@pytest.mark.requirement("U3")
def test_every_op_has_its_effect(ask: Ask) -> None:
    ask.put(changes=[upsert("a", tags=["x", "y"], data={"k": 1, "l": 2}, content="One.\n"), upsert("b", summary="b")])
    ask.put(
        changes=[
            {"op": "append", "uri": "a", "text": "Two."},
            {"op": "untag", "uri": "a", "tags": "x"},
            {"op": "upsert", "uri": "a", "data": {"k": None}, "unset": ["data.l"], "summary": "s"},
            {"op": "relate", "source": "a", "target": "b", "type": "uses", "data": {"why": "speed"}},
        ]
    )
    (node,) = ask.get(uris="a")["nodes"]
    assert node["content"] == "One.\n\nTwo.\n"
    assert node["tags"] == ["y"]
    assert "data" not in node
    assert node["relations"] == [{"type": "uses", "target": "concept://shop/b", "weight": 1, "data": {"why": "speed"}}]
    moved = ask.put(changes=[{"op": "move", "uri": "a", "to": "c"}])
    assert ask.get(uris="a")["nodes"][0]["uri"] == "concept://shop/c"
    ask.put(changes=[{"op": "unrelate", "source": "c", "target": "b", "type": "uses"}, {"op": "delete", "uri": "b"}])
    assert "relations" not in ask.get(uris="c")["nodes"][0]
    assert ask.get(uris="b")["missing"][0]["uri"] == "concept://shop/b"
    ask.put(changes={"op": "revert", "commit": moved["commit"]})
    assert ask.get(uris="a")["nodes"][0]["uri"] == "concept://shop/a"


@pytest.mark.requirement("E3")
@pytest.mark.parametrize("weight", [-0.1, 1.5, 2])
def test_a_weight_outside_0_to_1_refuses_the_whole_set_and_is_placed(ask: Ask, weight: float) -> None:
    changes = [
        upsert("a", summary="a"),
        upsert("b", summary="b"),
        {"op": "relate", "source": "a", "target": "b", "type": "t", "weight": weight},
    ]
    with pytest.raises(Invalid) as caught:
        ask.put(changes=changes)
    assert caught.value.at == "changes[2].weight"
    assert len(ask.get(uris=["a", "b"])["missing"]) == 2


def test_the_weight_of_a_relation_inside_an_upsert_is_placed_too(ask: Ask) -> None:
    with pytest.raises(Invalid) as caught:
        ask.put(
            changes=upsert("a", relations=[{"type": "t", "target": "b"}, {"type": "u", "target": "b", "weight": 7}])
        )
    assert caught.value.at == "changes[0].relations[1].weight"


@pytest.mark.parametrize(
    "change",
    [
        {"op": "tag", "tags": ["t"]},
        {"op": "untag", "tags": ["t"]},
        {"op": "delete"},
        {"op": "move", "to": "elsewhere"},
        {"op": "append", "text": "more"},
    ],
    ids=lambda change: change["op"],
)
def test_a_change_of_a_missing_node_is_refused_with_similar_names(ask: Ask, change: dict[str, Any]) -> None:
    ask.put(changes=[upsert("services/payment", summary="s")])
    with pytest.raises(NotFound) as refused:
        ask.put(changes=[{**change, "uri": "services/paymnt"}])
    assert refused.value.next == "Did you mean concept://shop/services/payment?"
    assert ask.get(uris="services/paymnt")["missing"]


def test_a_file_without_a_stored_node_gets_tags(ask: Ask) -> None:
    file = "file://shop/src/checkout.py"
    with pytest.raises(NotFound, match="nothing is stored about this file"):
        ask.put(changes=[{"op": "untag", "uri": file, "tags": ["slow"]}])
    assert ask.put(changes=[{"op": "tag", "uri": file, "tags": ["slow"]}])["created"] == [file]
    assert ask.get(uris=file)["nodes"][0]["tags"] == ["slow"]
    with pytest.raises(NotFound, match="no such node"):
        ask.put(changes=[{"op": "tag", "uri": "./src/chekout.py", "tags": ["slow"]}])


REFUSED: list[tuple[Any, type[KgdError]]] = [
    (upsert("a", summary="x" * 101), Limit),
    (upsert("a", content="x" * (256 * 1024 + 1)), Limit),
    (upsert("a", content="key AKIAIOSFODNN7EXAMPLQ and more"), Refused),
    (upsert("a", name="two\nlines"), Invalid),
    (upsert("a", tags=[""]), Invalid),
    ({"op": "upsert", "name": "without a type"}, Invalid),
    ({"op": "delete", "uri": "not/there"}, NotFound),
    ({"op": "append", "uri": "src/checkout.py", "text": "  "}, Invalid),
    ({"op": "unrelate", "source": "not/there", "target": "a", "type": "t"}, NotFound),
    ({"op": "revert", "commit": "f" * 40}, NotFound),
    ({"op": "upsert", "uri": "kgd://shop/status", "summary": "mine"}, Invalid),
]


def test_an_invalid_change_is_refused_with_its_place_and_nothing_is_written(ask: Ask) -> None:
    before = ask.history()["commits"]
    for changes, error in REFUSED:
        with pytest.raises(error) as caught:
            ask.put(changes=changes)
        assert caught.value.at, changes
    assert ask.history()["commits"] == before


@pytest.mark.parametrize("letter", ["x", "\u20ac"])
def test_a_refused_size_differs_from_the_limit(ask: Ask, letter: str) -> None:
    with pytest.raises(Limit, match="at most 256 KiB; this content is 257 KiB"):
        ask.put(changes=upsert("a", content=letter * (256 * 1024 // len(letter.encode()) + 1)))


def test_a_stale_version_is_a_conflict_that_carries_the_current_one(ask: Ask) -> None:
    ask.put(changes=upsert("a", content="one\n"))
    ask.put(changes=upsert("a", content="two\n", expect_version=1))
    for change in (upsert("a", content="three\n", expect_version=1), upsert("a", content="three\n")):
        with pytest.raises(Stale) as caught:
            ask.put(changes=change)
        assert caught.value.as_dict()["current_version"] == 2


@pytest.mark.parametrize("was_read", [False, True], ids=["from its own put", "read with get"])
def test_a_version_is_compared_field_by_field(ask: Ask, was_read: bool) -> None:
    [written] = ask.put(changes=upsert("a", summary="first", content="one\n", data={"x": 1, "y": 1}))["nodes"]
    version = ask.get(uris="a")["nodes"][0]["version"] if was_read else written["version"]
    ask.put(changes=upsert("a", summary="by another client", data={"x": 2}))
    late = upsert("a", content="two\n", data={"y": 2}, expect_version=version)
    foretold, done = ask.put(changes=late, dry_run=True), ask.put(changes=late)
    assert foretold["nodes"] == done["nodes"] == [{"uri": "concept://shop/a", "version": 3}]
    [node] = ask.get(uris="a")["nodes"]
    assert (node["summary"], node["content"], node["data"]) == ("by another client", "two\n", {"x": 2, "y": 2})
    for clashing in ({"summary": "mine"}, {"data": {"x": 3}}, {"content": "mine\n"}):
        with pytest.raises(Stale):
            ask.put(changes=upsert("a", **clashing, expect_version=version))


def test_one_field_that_clashes_refuses_the_whole_change(ask: Ask) -> None:
    ask.put(changes=[upsert("a", summary="first"), upsert("b", summary="first")])
    ask.put(changes=[upsert("a", summary="by another client"), upsert("b", tags=["by-another-client"])])
    mine = [upsert(name, summary="mine", expect_version=1) for name in "ab"]
    with pytest.raises(Stale):
        ask.put(changes=mine)
    assert ask.get(uris="b")["nodes"][0]["summary"] == "first"
    ask.put(changes=mine[1])
    assert ask.get(uris="b")["nodes"][0]["tags"] == ["by-another-client"]


def test_a_deletion_expects_the_whole_node(ask: Ask) -> None:
    [made] = ask.put(changes=upsert("kept", summary="s"))["nodes"]
    ask.put(changes=upsert("kept", tags=["by-another-client"]))
    with pytest.raises(Stale):
        ask.put(changes={"op": "delete", "uri": "kept", "expect_version": made["version"]})


def test_relations_deleted_with_their_target_are_not_broken_links(ask: Ask) -> None:
    ask.put(changes=[upsert("kept"), upsert("gone"), upsert("also-gone")])
    link = {"source": "kept", "target": "gone", "type": "uses"}
    ask.put(changes=[{"op": "relate", **link}, {"op": "relate", **link, "source": "also-gone"}])
    apart = [{"op": "delete", "uri": "gone"}, {"op": "unrelate", **link}, {"op": "delete", "uri": "also-gone"}]
    for changes in (apart, apart[::-1]):
        assert ask.put(changes=changes, dry_run=True)["warnings"] == []
    third = upsert("third", relations=[{"type": "see", "target": "gone"}])
    assert ask.put(changes=[*apart[1:], third])["warnings"] == []
    [warning] = ask.put(changes={"op": "delete", "uri": "gone"})["warnings"]
    assert warning.startswith("1 relation of another node leads to concept://shop/gone")


def broken(answer: Any) -> list[str]:
    return [one for one in answer["warnings"] if "broken link" in one]


def test_each_way_to_remove_a_linked_node_warns_of_broken_links(ask: Ask, ws: Workspace) -> None:
    made = ask.put(changes=upsert("gone"))["commit"]
    base = bytes.fromhex(ws.tip)
    ask.put(changes=upsert("kept", relations=[{"type": "uses", "target": "gone"}]))
    said = ["1 relation of another node leads to concept://shop/gone and is now a broken link"]
    assert broken(ask.put(changes={"op": "revert", "commit": made}, dry_run=True)) == said
    assert broken(ask.review(revert="gone", dry_run=True)["reverted"]) == said
    delete = builders.change(Delete(Uri("concept://shop/gone")), author=Author("Bob", "bob@example.org", "tests"))
    proposal, *_ = proposals.propose(ws, delete, base, holder="bob")
    assert broken(ask.accept(name=proposal.id, dry_run=True)) == said
    assert broken(ask.accept(name=proposal.id)) == said
    ask.revert(commit="HEAD")
    assert broken(ask.undo(commit=made)) == said


def test_a_move_does_not_repeat_the_warnings_about_relations(ask: Ask) -> None:
    links = [{"type": "dependson", "target": "missing"}, {"type": "uses", "target": "old"}]
    assert len(ask.put(changes=upsert("old", relations=links))["warnings"]) == 3
    assert ask.put(changes={"op": "move", "uri": "old", "to": "new"})["warnings"] == []
    added = {"op": "relate", "source": "newer", "type": "uses", "target": "missing-too"}
    told = ask.put(changes=[{"op": "move", "uri": "new", "to": "newer"}, added])["warnings"]
    assert [("missing-too" in one) for one in told] == [True]


@pytest.mark.parametrize("texts", [("word", "word " * 40_000), ("word " * 40_000, "word")])
def test_a_chunk_that_a_proposal_moves_between_its_own_file_and_a_part_is_not_removed(
    ask: Ask, ws: Workspace, texts: tuple[str, str]
) -> None:
    chunk, (before, after) = "chunk://shop/doc/0001", texts
    link = {"type": "quotes", "target": chunk}
    ask.put(changes=[upsert(chunk, content=before), upsert("chunk://shop/doc/0002"), upsert("kept", relations=[link])])
    edit = Upsert(Uri(chunk), content=after, expect_version=1)
    proposed = builders.change(edit, author=Author("Bob", "bob@example.org", "tests"))
    proposal, *_ = proposals.propose(ws, proposed, bytes.fromhex(ws.tip), holder="bob")
    assert not broken(ask.accept(name=proposal.id, dry_run=True))
    assert not broken(ask.accept(name=proposal.id))


def test_a_relation_to_a_former_name_or_to_a_path_of_the_code_is_no_broken_link(ask: Ask) -> None:
    link = {"type": "uses", "target": "old"}
    ask.put(changes=[upsert("old"), upsert("kept", relations=[link, {"type": "about", "target": "./README.md"}])])
    assert not broken(ask.put(changes={"op": "move", "uri": "old", "to": "new"}))
    ask.put(changes=upsert("late", relations=[{"type": "uses", "target": "new"}]))
    [said] = broken(ask.undo(commit="HEAD~1"))
    assert said.startswith("1 relation of another node leads to concept://shop/new ")
    ask.put(changes=upsert("./README.md", summary="stored"))
    assert not broken(ask.put(changes={"op": "delete", "uri": "./README.md"}))


def test_a_relation_with_two_values_gets_a_warning(ask: Ask) -> None:
    ask.put(changes=upsert("b"))
    near, far = ({"type": "uses", "target": "b", "weight": weight} for weight in (0.1, 0.9))
    for changes in (
        upsert("a", relations=[near, far]),
        [{"op": "relate", "source": "a", **one} for one in (near, far)],
    ):
        [warning] = ask.put(changes=changes)["warnings"]
        assert "concept://shop/a uses concept://shop/b is given two values" in warning
        assert ask.get(uris="a")["nodes"][0]["relations"][0]["weight"] == 0.9
        ask.put(changes={"op": "delete", "uri": "a"})
        ask.put(changes=upsert("a"))
    assert ask.put(changes=upsert("c", relations=[near, near]))["warnings"] == []


def test_a_twin_by_case_is_refused(ask: Ask) -> None:
    ask.put(changes=upsert("Auth", summary="a"))
    with pytest.raises(InvariantViolation):
        ask.put(changes=upsert("auth", summary="b"))


def test_a_dry_run_shows_the_outcome_and_writes_nothing(ask: Ask) -> None:
    answer = ask.put(changes=upsert("a", summary="s"), dry_run=True)
    assert answer["dry_run"] is True
    assert answer["commit"] is None
    assert answer["created"] == ["concept://shop/a"]
    assert ask.get(uris="a")["nodes"] == []


def test_a_dry_run_names_the_version_that_each_node_would_have(ask: Ask) -> None:
    ask.put(changes=[upsert("a", summary="s"), upsert("b", summary="s")])
    changes = [upsert("a", summary="t"), upsert("b", summary="s"), upsert("c", summary="new")]
    told, done = ask.put(changes=changes, dry_run=True), ask.put(changes=changes)
    assert told["nodes"] == done["nodes"]
    assert done["nodes"] == [{"uri": "concept://shop/a", "version": 2}, {"uri": "concept://shop/c", "version": 1}]
    fact = {"text": "Sessions last 15 minutes.", "detail": "Since May."}
    assert ask.remember(**fact, dry_run=True)["nodes"] == ask.remember(**fact)["nodes"]
    tagged = {**fact, "detail": None, "tags": ["auth"]}
    assert ask.remember(**tagged, dry_run=True)["nodes"] == ask.remember(**tagged)["nodes"]


def test_a_retry_with_the_same_request_id_applies_once(ask: Ask) -> None:
    ask.put(changes=upsert("a", summary="s"))
    first = ask.put(changes={"op": "append", "uri": "a", "text": "once"}, request_id="r1")
    second = ask.put(changes={"op": "append", "uri": "a", "text": "once"}, request_id="r1")
    assert second["commit"] == first["commit"]
    assert second["repeated"] is True
    assert ask.get(uris="a")["nodes"][0]["content"] == "once\n"


@pytest.mark.requirement("E8")
def test_a_relation_creates_a_missing_resource_and_warns_about_a_missing_concept(ask: Ask) -> None:
    answer = ask.put(
        changes=upsert(
            "a",
            relations=[
                {"type": "see", "target": "https://example.org/doc"},
                {"type": "see", "target": "./not/there.py"},
                {"type": "see", "target": "src/checkout.py"},
                {"type": "see", "target": "concept://shop/nobody"},
            ],
        )
    )
    assert answer["created"] == ["concept://shop/a", "file://shop/not/there.py", "https://example.org/doc"]
    assert any("concept://shop/nobody" in warning for warning in answer["warnings"])
    broken = [r["target"] for r in ask.get(uris="a")["nodes"][0]["relations"] if r.get("broken")]
    assert broken == ["concept://shop/nobody"]


def test_a_change_without_effect_gets_a_warning(ask: Ask) -> None:
    ask.put(changes=upsert("a", summary="s"))
    answer = ask.put(changes=upsert("a", summary="s"))
    assert answer["commit"] is None
    assert answer["warnings"]


def test_a_fact_is_remembered_once_and_found_by_its_words_and_by_its_subject(ask: Ask) -> None:
    fact = {"text": "Tokens outlive a key rotation by ten minutes.", "about": ["src/auth"], "tags": ["auth"]}
    first = ask.remember(**fact)
    assert ask.remember(**fact)["commit"] is None
    (uri,) = first["created"]
    assert ask.search(query="key rotation")["hits"][0]["uri"] == uri
    near = ask.traverse(start="src/auth", direction="in", edge_types="about")
    assert uri in [node["uri"] for node in near["nodes"]]


def _shown(ask: Ask, uri: str) -> set[str]:
    """The names of the node in the answers of a look-up, a search, a walk and a summary for agents."""
    found = ask.search(query="tokens outlive key rotation")["hits"]
    walked = ask.traverse(start="src/auth", direction="in", edge_types="about")["nodes"]
    return {one["name"] for one in [*ask.get(uris=[uri])["nodes"], *found, *walked] if one["uri"] == uri}


def test_an_edited_fact_is_shown_under_its_new_claim_alone(ask: Ask) -> None:
    (uri,) = ask.remember(text="Tokens outlive a key rotation by ten minutes.", about=["src/auth"])["created"]
    assert _shown(ask, uri) == {"Tokens outlive a key rotation by ten minutes."}
    ask.put(changes=upsert(uri, summary="Tokens outlive a key rotation by one hour"))
    assert _shown(ask, uri) == {"Tokens outlive a key rotation by one hour"}


def test_an_own_name_of_a_fact_stays_when_its_summary_changes(ask: Ask) -> None:
    uri = "gotcha://shop/rotation"
    ask.put(changes=upsert(uri, name="Key rotation", summary="Tokens outlive it"))
    ask.put(changes=upsert(uri, summary="Tokens end with it"))
    (node,) = ask.get(uris=[uri])["nodes"]
    assert (node["name"], node["summary"]) == ("Key rotation", "Tokens end with it")


def test_a_name_that_copies_the_summary_of_a_fact_is_not_stored(ask: Ask) -> None:
    uri = "insight://shop/rotation"
    ask.put(changes=upsert(uri, name="Tokens outlive it", summary="Tokens outlive it"))
    ask.put(changes=upsert(uri, summary="Tokens end with it"))
    assert ask.get(uris=[uri])["nodes"][0]["name"] == "Tokens end with it"


FACT = "Tokens outlive a key rotation by ten minutes"


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("Sessions last.", "insight://shop/sessions-last"),
        (f"{FACT}, and the reason is unknown.", "insight://shop/tokens-outlive-a-key-rotation-by"),
        (
            "Internationalisation notwithstanding, antidisestablishmentarianism",
            "insight://shop/internationalisation-notwithstanding",
        ),
        ("x" * 90, f"insight://shop/{'x' * 40}"),
        ("…", "insight://shop/fact"),
    ],
    ids=["short", "six words", "40 characters", "one word", "no word"],
)
def test_a_fact_is_named_by_its_first_words(ask: Ask, text: str, uri: str) -> None:
    assert ask.remember(text=text)["created"] == [uri]


def test_facts_with_equal_beginnings_stay_separate_and_are_remembered_once(ask: Ask) -> None:
    first = ask.remember(text=f"{FACT}.")["created"]
    second = ask.remember(text=f"{FACT}, in the old cluster.\n\nNot in the new one.")["created"]
    assert second[0].startswith(first[0] + "-")
    for again in (f"{FACT}.", f"{FACT},  in the old cluster.\n\nNot in the new one."):
        assert ask.remember(text=again)["commit"] is None


def test_concurrent_facts_with_equal_beginnings_do_not_overwrite_each_other(ask: Ask) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: ask.remember(text=f"{FACT} ({n})")["created"], range(8)))
    nodes = ask.get(uris=[uri for (uri,) in made])["nodes"]
    assert sorted(node["summary"] for node in nodes) == [f"{FACT} ({n})" for n in range(8)]


def test_a_target_without_similar_names_gets_a_plain_warning(ask: Ask) -> None:
    def about(target: str) -> str:
        change = upsert("typo", summary=f"about {target}", relations=[{"type": "about", "target": target}])
        (warning,) = ask.put(changes=change)["warnings"]
        return str(warning)

    told = about("src/chekout.py")
    assert told.startswith("no node is called concept://shop/src/chekout.py, and no file src/chekout.py: ")
    assert about("decision:nobodys").startswith("no node is called decision://shop/nobodys: ")


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_a_blank_text_is_refused(ask: Ask, text: str) -> None:
    with pytest.raises(Invalid, match=r"^the text is empty \(text\)"):
        ask.remember(text=text)


def test_a_type_like_a_known_one_gets_a_warning_when_the_node_is_new(ask: Ask) -> None:
    (told,) = ask.remember(text="Never cache a key.", type="gotch")["warnings"]
    assert told == "concept://shop/never-cache-a-key has the type gotch; did you mean gotcha?"
    assert ask.put(changes={"op": "upsert", "type": "gotcha", "name": "a gotcha"})["warnings"] == []
    other = ask.put(changes={"op": "upsert", "type": "service", "name": "a service"})["warnings"]
    assert other == ["concept://shop/a%20service is the first node of the type service"]
    assert ask.put(changes=upsert("never-cache-a-key", summary="Keys change."))["warnings"] == []


def test_an_append_to_a_mistyped_uri_creates_no_node_and_suggests_the_likely_one(ask: Ask) -> None:
    ask.put(changes=upsert("services/checkout", content="One.\n"))
    with pytest.raises(NotFound) as refused:
        ask.put(changes={"op": "append", "uri": "services/chekout", "text": "Two."})
    assert "concept://shop/services/checkout" in refused.value.next
    assert ask.get(uris="services/chekout")["nodes"] == []
    assert ask.put(changes={"op": "append", "uri": "src/checkout.py", "text": "A file of the tree."})["commit"]


@pytest.mark.parametrize("cites", [[{"path": "src/checkout.py"}], {"path": "src/checkout.py"}, [1], 7], ids=str)
def test_a_malformed_citation_is_refused_with_the_correct_form(ask: Ask, cites: Any) -> None:
    with pytest.raises(Invalid) as refused:
        ask.put(changes=upsert("a", data={"cites": cites}))
    assert "path#symbol" in refused.value.next
    assert ask.get(uris="a")["nodes"] == []
    assert ask.put(changes=upsert("a", data={"cites": ["src/checkout.py"]}))["commit"]


def test_a_dry_run_names_nodes_similar_to_a_new_one(ask: Ask) -> None:
    ask.put(changes=upsert("one", name="Session token rotation"))
    change = upsert("two", name="Session token rotation rules")
    until(lambda: ask.put(changes=change, dry_run=True)["similar"])  # none while the index is behind
    would = ask.put(changes=change, dry_run=True)
    assert would["similar"] == [{"uri": "concept://shop/two", "like": ["concept://shop/one"]}]
    assert would["similar"] == ask.put(changes=change)["similar"]


def test_a_new_type_is_reported_once_with_similar_types_in_use(ask: Ask) -> None:
    first = ask.put(changes=upsert("a", type="incident", summary="The daemon stopped."))
    assert first["warnings"] == ["concept://shop/a is the first node of the type incident"]
    until(lambda: "incident" in str(ask.search(query="daemon")["hits"]))
    assert ask.put(changes=upsert("b", type="incident", summary="The disk was full."))["warnings"] == []
    meant = ask.remember(text="Keys were lost.", type="incidnet")
    assert meant["warnings"] == [
        "concept://shop/keys-were-lost is the first node of the type incidnet; did you mean incident?"
    ]
    own = ask.remember(text="Keys were stolen.", type="gotchha")["warnings"]
    assert own == ["concept://shop/keys-were-stolen has the type gotchha; did you mean gotcha?"]


def test_an_area_whose_pattern_matches_no_file_gets_a_warning(ask: Ask) -> None:
    area = upsert("atom:auth", content="Rules.", data={"paths": ["src/auth/**", "src/nope/**", "*.bin"]})
    assert ask.put(changes=area)["warnings"] == ["atom://shop/auth: no file of the code tree matches src/nope/**"]
    made = ask.manage_graph(
        operation="create",
        entityType="atom",
        name="Nope",
        paths=["nope/**"],
        knowledge="Rules.",
        createdByTaskId="https://tracker.example/1",
    )
    assert "no file of the code tree matches nope/**" in str(made)
