"""A ChangeSet is one commit, all of it or nothing, under the rules for nodes, versions and links."""

from __future__ import annotations

import gc
import subprocess
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

import pytest

from kgd.errors import Invalid, InvariantViolation, KgdError, Limit, NotFound, Refused, Stale
from kgd.git import program
from kgd.git.store import ObjectStore
from kgd.model.change import (
    SUBJECT_PART,
    Append,
    ChangeSet,
    Delete,
    Edit,
    Move,
    Relate,
    Revert,
    Unrelate,
    Untag,
    subject_from,
)
from kgd.model.node import Node, Relation
from kgd.model.uri import Uri
from kgd.workspace.history.history import UNDO
from kgd.workspace.workspace import Workspace
from tests.builders import ANN, change, commit_file, to, upsert, uri

BY_ANN = "Ann (tests) <ann@example.org>"
Reopen = Callable[[], Workspace]


def commits(ws: Workspace) -> list[str]:
    done = subprocess.run(
        ["git", "-C", ws.layout.git_dir, "log", "--format=%H", "refs/kgd/head"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.requirement("B3")
@pytest.mark.requirement("E15")
def test_a_change_is_one_commit_with_author_message_and_the_nodes_it_touched(ws: Workspace) -> None:
    before = commits(ws)
    outcome = ws.submit(change(upsert("a", name="A"), upsert("b", name="B"), message="why it was done"))
    assert len(commits(ws)) == len(before) + 1
    shown = subprocess.run(
        ["git", "-C", ws.layout.git_dir, "show", "-s", "--format=%an <%ae>%n%B", str(outcome.commit)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "Ann (tests) <ann@example.org>" in shown
    assert "why it was done" in shown
    assert "Kgd-Nodes: concept://ws/a concept://ws/b" in shown
    assert outcome.nodes == ((uri("a"), 1), (uri("b"), 1))


@pytest.mark.requirement("B2")
def test_a_node_survives_a_restart(reopen: Reopen) -> None:
    reopen().submit(change(upsert("a", name="A", content="body\n", tags=("x",), data={"k": [1, {"z": None}]})))
    assert reopen().node(uri("a")) == Node(
        uri("a"), name="A", content="body\n", tags=("x",), data={"k": [1, {"z": None}]}
    )


def test_a_change_is_freed_without_a_garbage_collection(ws: Workspace) -> None:
    """In a cycle, hundreds of changes would lie between the objects that stay, and scatter them over more memory."""
    gc.disable()
    try:
        for number in range(3):
            ws.submit(change(upsert(f"a{number}"), message="freed"))
        left = [found for found in gc.get_objects() if isinstance(found, ChangeSet) and found.message == "freed"]
        assert left == []
    finally:
        gc.enable()


def test_one_bad_change_refuses_the_whole_set_and_names_its_place(ws: Workspace) -> None:
    tip = ws.tip
    with pytest.raises(NotFound) as caught:
        ws.submit(change(upsert("a", name="A"), Delete(uri("missing"))))
    assert caught.value.at.startswith("changes[1]")
    assert ws.tip == tip
    assert ws.node(uri("a")) is None


def test_an_upsert_changes_its_fields_and_leaves_the_rest(ws: Workspace) -> None:
    ws.submit(change(upsert("a", to("b"), name="A", summary="s", tags=("x",), data={"k": 1, "l": 2})))
    ws.submit(change(upsert("a", to("c"), summary="t", tags=("y",), data={"k": None, "m": {"n": 1}})))
    node = ws.node(uri("a"))
    assert node is not None
    assert (node.name, node.summary, node.tags, node.data) == ("A", "t", ("x", "y"), {"l": 2, "m": {"n": 1}})
    assert [r.target for r in node.relations] == [uri("b"), uri("c")]


def test_the_copied_name_of_an_older_fact_does_not_outlive_its_summary(ws: Workspace) -> None:
    fact = "insight://ws/fact"
    commit_file(ws, "nodes/insight/fact.yaml", f"uri: {fact}\nname: Old claim\nsummary: Old claim\n")
    ws.submit(change(upsert(fact, tags=("x",))))
    assert ws.node(Uri(fact)).name == "Old claim"  # type: ignore[union-attr]
    ws.submit(change(upsert(fact, summary="New claim")))
    assert ws.node(Uri(fact)) == Node(Uri(fact), summary="New claim", tags=("x",))


def test_unset_clears_a_field_or_a_key(ws: Workspace) -> None:
    ws.submit(change(upsert("a", name="A", summary="s", data={"k": 1, "l": 2})))
    ws.submit(change(upsert("a", unset=("summary", "data.k"))))
    assert ws.node(uri("a")) == Node(uri("a"), name="A", data={"l": 2})


def test_a_stale_version_is_refused_with_the_current_one(ws: Workspace) -> None:
    ws.submit(change(upsert("a", name="one")))
    ws.submit(change(upsert("a", name="two")))
    with pytest.raises(Stale) as caught:
        ws.submit(change(upsert("a", name="three", expect_version=1)))
    assert caught.value.current == 2
    assert ws.submit(change(upsert("a", name="three", expect_version=2))).nodes == ((uri("a"), 3),)


def test_version_zero_expects_a_new_node(ws: Workspace) -> None:
    ws.submit(change(upsert("a", name="A", expect_version=0)))
    with pytest.raises(Stale):
        ws.submit(change(upsert("a", name="B", expect_version=0)))


def test_content_is_not_replaced_without_having_been_read(ws: Workspace) -> None:
    ws.submit(change(upsert("a", content="old\n")))
    with pytest.raises(Stale):
        ws.submit(change(upsert("a", content="new\n")))
    ws.submit(change(upsert("a", content="new\n", expect_version=1)))
    assert ws.node(uri("a")) == Node(uri("a"), content="new\n")


def test_append_adds_a_paragraph(ws: Workspace) -> None:
    ws.submit(change(Append(uri("a"), "first")))
    ws.submit(change(Append(uri("a"), "second\n")))
    assert ws.node(uri("a")) == Node(uri("a"), content="first\n\nsecond\n")


def test_a_repeated_request_answers_the_first_result_and_writes_nothing(reopen: Reopen) -> None:
    ws = reopen()
    first = ws.submit(change(upsert("a", name="A"), request="r1"))
    again = ws.submit(change(upsert("a", name="A"), request="r1"))
    assert (again.commit, again.repeated) == (first.commit, True)
    ws = reopen()
    later = ws.submit(change(upsert("a", name="other"), request="r1"))
    assert (later.commit, later.repeated, later.nodes) == (first.commit, True, first.nodes)


def test_a_change_without_effect_is_a_warning_and_no_commit(ws: Workspace) -> None:
    ws.submit(change(upsert("a", name="A")))
    tip = ws.tip
    outcome = ws.submit(change(upsert("a", name="A")))
    assert (outcome.commit, ws.tip) == (None, tip)
    assert outcome.warnings


def test_a_dry_run_shows_its_effect_and_writes_nothing(ws: Workspace) -> None:
    tip = ws.tip
    outcome = ws.submit(change(upsert("a", to("file://ws/x.py"), name="A")), dry_run=True)
    assert outcome.created == (uri("a"), uri("file://ws/x.py"))
    assert (outcome.commit, ws.tip) == (None, tip)


@pytest.mark.requirement("E8")
def test_a_relation_makes_a_missing_resource_and_keeps_a_missing_concept_with_a_warning(ws: Workspace) -> None:
    outcome = ws.submit(change(upsert("a", to("https://example.org/x"), to("file://ws/src/a.py"), to("nobody"))))
    assert ws.node(uri("https://example.org/x")) == Node(uri("https://example.org/x"))
    assert ws.node(uri("file://ws/src/a.py")) is not None
    assert ws.node(uri("nobody")) is None
    assert any("nobody" in warning for warning in outcome.warnings)
    assert [link.target for link in ws.broken_links()] == [uri("nobody")]


def test_a_written_file_that_the_code_lacks_is_made_with_a_warning(ws: Workspace) -> None:
    outcome = ws.submit(change(upsert("file://ws/src/absent.py", summary="Moved to lib")))
    created = "file://ws/src/absent.py is not in the code tree; it was created as a resource, which undo removes"
    assert outcome.warnings == (created,)
    assert ws.submit(change(upsert("file://ws/src/absent.py", summary="Moved to lib/"))).warnings == ()


def test_a_relation_to_a_line_names_the_file_that_was_probably_meant(ws: Workspace) -> None:
    ws.submit(change(upsert("file://ws/src/a.py", summary="Signs")))
    for line in ("3", "3-9"):
        made = f"file://ws/src/a.py:{line} is not in the code tree; it was created as a resource, which undo removes"
        (warning,) = ws.submit(change(upsert("a", to(f"file://ws/src/a.py:{line}")))).warnings
        assert warning == f"{made}; did you mean file://ws/src/a.py? A relation leads to a whole file"
    (warning,) = ws.submit(change(upsert("a", to("file://ws/src/b.py:3")))).warnings
    assert "did you mean" not in warning


@pytest.mark.parametrize(
    ("type", "warnings"),
    [
        ("bad type", ("the relation type 'bad type' contains whitespace; did you mean bad_type?",)),
        ("dependson", ("a relation has the type 'dependson'; did you mean depends_on?",)),
        ("depends-on", ("a relation has the type 'depends-on'; did you mean depends_on?",)),
        ("abuot", ("a relation has the type 'abuot'; did you mean about?",)),
        ("DEPENDS_ON", ()),
        ("depends_on", ()),
        ("blocks", ()),
        ("依存", ()),
    ],
)
def test_a_relation_type_that_is_probably_a_mistake_is_written_with_one_warning(
    ws: Workspace, type: str, warnings: tuple[str, ...]
) -> None:
    ws.submit(change(upsert("b"), upsert("c")))
    relations = [Relation(type, uri(name)) for name in "bc"]
    assert ws.submit(change(upsert("a", *relations))).warnings == warnings
    assert ws.submit(change(upsert("a", summary="x"))).warnings == (), "only where the relation is new"


def test_a_relation_to_its_own_node_is_written_with_a_warning(ws: Workspace) -> None:
    warned = f"{uri('a')} has a relation to itself: uses"
    assert ws.submit(change(upsert("a", Relation("uses", uri("a"))))).warnings == (warned,)
    assert ws.submit(change(upsert("a", summary="x"))).warnings == ()


def test_a_node_type_with_a_blank_is_written_with_a_warning(ws: Workspace) -> None:
    warned = f"{uri('a')} has a type with a blank, 'bad type'; did you mean bad_type?"
    assert ws.submit(change(upsert("a", type="bad type"))).warnings == (warned,)
    assert ws.submit(change(upsert("a", summary="x"))).warnings == ()
    ws.submit(change(upsert("a", type="concept")))
    assert ws.submit(change(upsert("a", type="bad type"))).warnings == (warned,)


def test_a_resource_with_a_misspelt_scheme_is_made_with_a_warning(ws: Workspace) -> None:
    outcome = ws.submit(change(upsert("a", to("gotca:trap"), to("mailto:ann@example.org"))))
    assert outcome.warnings == ("gotca:trap was created as a resource; did you mean gotcha:trap?",)


MADE = "was created as an external resource, which undo removes"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("area:x", f"area:x {MADE}; did you mean atom:x?"),
        ("insigth:x", f"insigth:x {MADE}; did you mean insight:x?"),
        ("runbook:x", f"runbook:x {MADE}; for a node of the type runbook, give the type and a name instead of a URI"),
        ("https://example.org/x", ""),
        ("mailto:ann@example.org", ""),
    ],
)
def test_a_scheme_like_a_type_makes_a_resource_with_a_warning(ws: Workspace, address: str, said: str) -> None:
    assert ws.submit(change(upsert(address, summary="s"))).warnings == ((said,) if said else ())
    assert ws.submit(change(upsert(address, summary="another"))).warnings == ()


@pytest.mark.requirement("E18")
@pytest.mark.requirement("U2")
def test_deleting_a_node_takes_its_outgoing_relations_and_breaks_the_incoming_ones(ws: Workspace) -> None:
    ws.submit(change(upsert("a", to("b")), upsert("b", to("c")), upsert("c")))
    outcome = ws.submit(change(Delete(uri("b"))))
    assert any("broken" in warning for warning in outcome.warnings)
    assert [(link.source, link.target) for link in ws.broken_links()] == [(uri("a"), uri("b"))]
    assert list(ws.graph.into(uri("c"))) == []


@pytest.mark.requirement("E3")
def test_relations_are_unique_by_source_target_and_type_and_keep_omitted_values(ws: Workspace) -> None:
    ws.submit(change(upsert("a", to("b", "uses", 0.5, why="x")), upsert("b")))
    ws.submit(change(Relate(uri("a"), to("b", "uses", 0.25), explicit=frozenset({"weight"}))))
    node = ws.node(uri("a"))
    assert node is not None
    assert node.relations == (to("b", "uses", 0.25, why="x"),)
    ws.submit(change(Unrelate(uri("a"), uri("b"), "uses")))
    assert ws.node(uri("a")) == Node(uri("a"))


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan"), True])
def test_a_weight_outside_of_zero_to_one_is_refused(weight: float) -> None:
    with pytest.raises(Invalid):
        to("b", "uses", weight)


def test_untag_removes_tags(ws: Workspace) -> None:
    ws.submit(change(upsert("a", tags=("x", "y"))))
    ws.submit(change(Untag(uri("a"), ("x",))))
    assert ws.node(uri("a")) == Node(uri("a"), tags=("y",))


def test_a_moved_node_keeps_its_old_name_as_alias_and_links_still_work(ws: Workspace) -> None:
    ws.submit(change(upsert("a", name="A"), upsert("b", to("a"))))
    ws.submit(change(Move(uri("a"), uri("deep/a"))))
    assert ws.history.entries(limit=1)[0].subject == "move concept://ws/a to concept://ws/deep/a"
    node = ws.node(uri("deep/a"))
    assert node is not None
    assert node.aliases == (uri("a"),)
    assert ws.resolve(uri("a")) == uri("deep/a")
    assert ws.broken_links() == []
    ws.submit(change(upsert("a", summary="still the same node")))
    assert ws.node(uri("a")) is None
    with pytest.raises(InvariantViolation):
        ws.submit(change(Move(uri("deep/a"), uri("b"))))


def test_the_subject_of_a_commit_names_both_ends_of_its_relation(ws: Workspace) -> None:
    ws.submit(change(upsert("a"), upsert("b")))
    ws.submit(change(Relate(uri("a"), to("b", "uses"))))
    ws.submit(change(Unrelate(uri("a"), uri("b"), "uses")))
    assert [one.subject for one in ws.history.entries(limit=2)] == [
        "unlink concept://ws/a uses concept://ws/b",
        "concept://ws/a uses concept://ws/b",
    ]


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (upsert("a", summary="Tokens end early"), ": Tokens end early"),
        (upsert("a", to("file://ws/src/x.py"), summary="Tokens end early"), ": Tokens end early and 1 more"),
        (upsert("a", name="Tokens"), ": Tokens"),
        (upsert("a", content="# Tokens\n\n\x1b[1mThey end"), ": # Tokens [1mThey end"),
        (upsert("a", summary=f"The key {'k' * 60} opens it"), ": The key …"),
        (upsert("a", summary="k" * 80), ""),
        (upsert("a", tags=("x",)), ""),
        (Append(uri("a"), "And late"), ": And late"),
    ],
)
def test_a_generated_subject_has_the_first_words_that_were_written(ws: Workspace, edit: Edit, said: str) -> None:
    ws.submit(change(upsert("a")))
    ws.submit(change(edit))
    verb = "append to" if isinstance(edit, Append) else "put"
    assert ws.history.entries(limit=1)[0].subject == f"{verb} concept://ws/a{said}"


def test_each_long_address_in_a_subject_is_cut_at_the_same_length(ws: Workspace) -> None:
    long = "n" * 200
    ws.submit(change(upsert(f"a{long}"), upsert(f"b{long}")))
    ws.submit(change(Relate(uri(f"a{long}"), to(f"b{long}", "uses"))))
    ws.submit(change(Move(uri(f"b{long}"), uri(f"c{long}"))))
    a, b, c = (subject_from(uri(f"{one}{long}")) for one in "abc")
    assert len(a) == SUBJECT_PART
    assert a.endswith("…")
    told = [one.subject for one in ws.history.entries(limit=3)]
    assert told == [f"move {b} to {c}", f"{a} uses {b}", f"put {a} and 1 more"]


def test_names_that_differ_only_by_case_are_refused(ws: Workspace) -> None:
    ws.submit(change(upsert("Readme", name="x")))
    with pytest.raises(InvariantViolation):
        ws.submit(change(upsert("README", name="y")))


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
        "aws AKIAABCDEFGHIJKLMNOP",
        "password = 'hT7x9QpL2mZk4RwV8sYb'",
    ],
)
def test_a_secret_is_refused_without_being_repeated(ws: Workspace, text: str) -> None:
    with pytest.raises(Refused) as caught:
        ws.submit(change(upsert("a", content=text)))
    assert text.split()[-1] not in str(caught.value)
    assert "content" in str(caught.value)


def test_a_secret_in_the_message_is_refused(ws: Workspace) -> None:
    with pytest.raises(Refused) as caught:
        ws.submit(change(upsert("a", name="A"), message="sign in with AKIA" + "ABCDEFGHIJKLMNOP"))
    assert caught.value.at == "message"


def test_a_node_larger_than_its_file_may_be_is_refused(ws: Workspace) -> None:
    with pytest.raises(Limit):
        ws.submit(change(upsert("a", content="x" * 80 * 1024 + "\n", data={"more": "word " * 40_000})))


def test_another_workspaces_node_cannot_be_written_here(ws: Workspace) -> None:
    with pytest.raises(Invalid):
        ws.submit(change(upsert("concept://elsewhere/a", name="x")))


@pytest.mark.requirement("E14")
def test_revert_undoes_one_commit_and_keeps_later_changes(ws: Workspace) -> None:
    ws.submit(change(upsert("a", name="A", summary="first")))
    wrong = ws.submit(change(upsert("a", summary="wrong", tags=("bad",)), upsert("b", name="B")))
    ws.submit(change(upsert("a", name="AA")))
    ws.submit(change(Revert(str(wrong.commit))))
    assert ws.node(uri("a")) == Node(uri("a"), name="AA", summary="first")
    assert ws.node(uri("b")) is None


def test_undo_goes_back_step_by_step(ws: Workspace) -> None:
    ws.submit(change(upsert("a", name="one")))
    ws.submit(change(upsert("a", name="two")))
    ws.submit(change(upsert("a", name="three")))
    names = []
    for _ in range(2):
        ws.submit(replace(change(Revert(next(ws.history.undoable()).commit)), operation=UNDO))
        node = ws.node(uri("a"))
        names.append(node.name if node else None)
    assert names == ["two", "one"]


def test_the_search_for_a_commit_to_undo_reads_no_trees(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    ws.submit(change(upsert("a", name="one")))
    last = ws.submit(change(upsert("a", name="two")))

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a tree was read")

    monkeypatch.setattr(program, "stream", refuse)
    for method in ("tree", "tree_of", "diff", "read"):
        monkeypatch.setattr(ObjectStore, method, refuse)
    assert next(ws.history.undoable()).commit == last.commit


def test_reverting_a_commit_that_was_edited_over_keeps_both_versions_as_a_conflict(ws: Workspace) -> None:
    ws.submit(change(upsert("a", name="one")))
    second = ws.submit(change(upsert("a", name="two")))
    ws.submit(change(upsert("a", name="three")))
    ws.submit(change(Revert(str(second.commit))))
    (conflict,) = ws.conflicts.find(uri("a"))
    assert sorted(conflict.conflict.fields["name"].sides) == ["one", "three"]


@pytest.mark.requirement("E14")
def test_history_diff_and_the_past_of_a_node(ws: Workspace) -> None:
    first = ws.submit(change(upsert("a", name="one"), message="begin"))
    ws.submit(change(upsert("b", name="other")))
    second = ws.submit(change(upsert("a", name="two")))
    assert [entry.commit for entry in ws.history.entries(uri=uri("a"))] == [second.commit, first.commit]
    assert ws.history.entries(uri=uri("a"))[1].subject == "begin"
    then = ws.node(uri("a"), as_of=str(first.commit)[:10])
    assert then is not None
    assert then.name == "one"
    (difference,) = ws.history.changes(str(second.commit))
    assert (difference.before.name, difference.after.name) == ("one", "two")  # type: ignore[union-attr]
    assert {c.uri for c in ws.history.changes_between(str(first.commit), "HEAD")} == {uri("a"), uri("b")}
    version = ws.node_version(uri("a"))
    assert version is not None
    assert (version.count, version.created_by, version.updated_by) == (2, BY_ANN, BY_ANN)


def test_the_graph_of_a_commit_can_be_walked(ws: Workspace) -> None:
    first = ws.submit(change(upsert("a", to("b")), upsert("b")))
    ws.submit(change(Delete(uri("b")), upsert("a", to("c")), upsert("c", to("a"))))
    past = ws.history.graph_at(str(first.commit))
    assert [edge.target for edge in past.out(uri("a"))] == [uri("b")]
    assert past.card(uri("b")) is not None
    assert past.card(uri("c")) is None
    assert list(past.into(uri("a"))) == []


def test_an_acknowledged_write_is_found_at_once(ws: Workspace) -> None:
    for n in range(5):
        ws.submit(change(upsert(f"n{n}", name=f"needle{n} in the hay")))
        assert [hit.uri for hit in ws.text().search(f"needle{n}")] == [uri(f"n{n}")]


def test_an_author_cannot_break_out_of_the_commit_header(ws: Workspace) -> None:
    hostile = ANN.__class__("Eve\nparent 0000 <x>", "e@x>\ncommitter me <", "")
    outcome = ws.submit(change(upsert("a", name="A"), author=hostile, message="s\n\nKgd-Op: fake"))
    (entry,) = ws.history.entries(commit=str(outcome.commit))
    assert entry.operation == "put"
    done = subprocess.run(
        ["git", "-C", ws.layout.git_dir, "fsck", "--strict"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "error" in done.stderr) == (0, False)


def test_an_unknown_kind_of_edit_is_an_internal_error(ws: Workspace) -> None:
    with pytest.raises(KgdError):
        ws.submit(change())


def test_a_new_node_with_a_similar_name_is_answered_with_the_older_one(ws: Workspace) -> None:
    ws.submit(change(upsert("auth", name="Auth service"), upsert("other", name="Service bus of the payments team")))
    ws.text().search("auth")
    outcome = ws.submit(change(upsert("authentication", name="The auth service")))
    assert [(one.uri, one.like) for one in outcome.similar] == [(uri("authentication"), (uri("auth"),))]


def test_a_new_node_with_the_same_words_in_another_spelling_is_answered_with_the_older_one(ws: Workspace) -> None:
    ws.submit(change(upsert("a", name="authService"), upsert("b", name="auth-tokens"), upsert("c", name="bus")))
    ws.text().search("auth")
    outcome = ws.submit(change(upsert("d", name="The auth service"), upsert("e", name="authTokens")))
    assert [(one.uri, one.like) for one in outcome.similar] == [(uri("d"), (uri("a"),)), (uri("e"), (uri("b"),))]


@pytest.mark.slow
@pytest.mark.requirement("B2")
def test_one_change_cannot_create_two_names_that_differ_only_by_case(ws: Workspace) -> None:
    with pytest.raises(InvariantViolation, match="differs only in letter case") as refused:
        ws.submit(change(upsert("Auth"), upsert("auth")))
    assert uri("Auth") in (refused.value.next or "")
    assert ws.node(uri("auth")) is None
    ws.submit(change(upsert("Auth")))
    ws.submit(change(Delete(uri("Auth")), upsert("auth")))
    assert ws.node(uri("auth"))
