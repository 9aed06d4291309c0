"""The authorization function: the token's scopes and the workspace's policy must both allow an operation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgd.codec.settings import decode_settings, policy_in
from kgd.errors import Forbidden, Invalid, KgdError
from kgd.model.access import (
    Policy,
    Principal,
    Scope,
    Verb,
    authorize,
    authorize_settings,
    check_narrower,
    check_reach,
    may,
    plain_rules,
    principal_from,
    read_rules,
)
from kgd.model.uri import Uri, settings_uri
from tests.access.conftest import holder
from tests.builders import uri

OPEN = Policy("ws")
POLICY = Policy(
    "ws",
    read_rules(
        [
            {"paths": ["/**"], "agents": "propose"},
            {"paths": ["/notes/**"], "agents": "write"},
            {"paths": ["/security/**", "/law/*"], "people": "propose", "agents": "none"},
        ]
    ),
)


def test_nothing_is_forbidden_to_the_person_of_this_machine() -> None:
    for verb in Verb:
        authorize(None, POLICY, verb, uri("security/x"))
    authorize_settings(None, POLICY, "kgd.yaml")


def test_a_refusal_is_one_sentence_that_names_the_node_and_the_allowed_scope() -> None:
    with pytest.raises(Forbidden) as caught:
        authorize(holder("read,propose", "/infra/**"), OPEN, Verb.WRITE, uri("infra/a"))
    assert "'billing-agent' may not write concept://ws/infra/a" in caught.value.message
    assert caught.value.next == "Propose it with submit_subgraph."
    with pytest.raises(Forbidden) as caught:
        authorize(holder("write", "/infra/**"), OPEN, Verb.WRITE, uri("db/a"))
    assert caught.value.next == "It may write on /infra/** of 'ws'."
    with pytest.raises(Forbidden) as caught:
        authorize(holder("write", "/**"), POLICY, Verb.WRITE, uri("db/a"))
    assert "the policy lets agents only propose on /**" in caught.value.message


@pytest.mark.parametrize("verb", list(Verb))
def test_a_conflict_about_the_settings_needs_admin_on_everything(verb: Verb) -> None:
    settings = settings_uri("ws")
    authorize(holder("admin", "/**"), POLICY, verb, settings)
    authorize(None, POLICY, verb, settings)
    for narrower in (holder("read,write,resolve", "/**"), holder("admin", "/infra/**")):
        with pytest.raises(Forbidden, match="needs admin on"):
            authorize(narrower, POLICY, verb, settings)
    with pytest.raises(Invalid, match="a resource of kgd itself"):
        authorize(holder("admin", "/**"), POLICY, verb, settings_uri("other"))


@pytest.mark.parametrize("verbs", ["read", "propose", "write", "resolve", "admin"])
def test_a_verb_allows_itself_and_writing_allows_proposing(verbs: str) -> None:
    who = holder(verbs, "/infra/**")
    allowed = {verb for verb in Verb if may(who, OPEN, verb, uri("infra/a"))}
    assert allowed == {Verb(verbs)} | ({Verb.PROPOSE} if verbs == "write" else set())
    assert not any(may(who, OPEN, verb, uri("other/a")) for verb in Verb)


def test_another_workspace_s_token_and_another_workspace_s_node_are_refused() -> None:
    assert not may(holder("write", "/**", workspace="other"), OPEN, Verb.WRITE, uri("a"))
    assert not may(holder("write", "/**"), OPEN, Verb.WRITE, Uri("concept://other/a"))


def test_a_uri_that_is_not_canonical_is_refused_before_matching() -> None:
    for wrong in ("concept://ws/infra/../db", "concept://ws/infra/%2E%2E/db", "concept://ws/infra/%61", "nonsense"):
        with pytest.raises(KgdError) as caught:
            authorize(holder("write", "/**"), OPEN, Verb.WRITE, Uri(wrong))
        assert not isinstance(caught.value, Forbidden)


def test_the_last_rule_that_covers_a_path_and_speaks_of_the_holder_counts() -> None:
    agent, person = holder("write", "/**"), holder("write", "/**", kind="person")
    cases = {
        "db/a": (False, True),
        "notes/a": (True, True),
        "security/a": (False, False),
        "law/a": (False, False),
        "law/a/b": (False, True),
    }
    for name, (by_agent, by_person) in cases.items():
        assert may(agent, POLICY, Verb.WRITE, uri(name)) is by_agent, name
        assert may(person, POLICY, Verb.WRITE, uri(name)) is by_person, name
    assert may(agent, POLICY, Verb.PROPOSE, uri("db/a"))
    assert not may(agent, POLICY, Verb.PROPOSE, uri("security/a"))
    assert may(person, POLICY, Verb.PROPOSE, uri("security/a"))
    assert not may(holder("resolve", "/**"), POLICY, Verb.RESOLVE, uri("db/a"))
    assert may(holder("read", "/**"), POLICY, Verb.READ, uri("security/a"))


def test_code_history_is_shown_to_the_groups_of_the_last_rule_if_they_read_everything() -> None:
    def shows(principal: Principal, *groups: list[str]) -> bool:
        rules = [{"paths": ["/**"], "agents": "write"}, *({"paths": ["/**"], "code_history": one} for one in groups)]
        read = read_rules(rules)
        assert read_rules(plain_rules(read)) == read
        return Policy("ws", read).shows_code_history(principal)

    person, agent = holder("read", "/**", kind="person"), holder("read", "/**")
    assert not shows(person)
    assert shows(person, ["people"])
    assert not shows(agent, ["people"])
    assert shows(agent, ["people"], ["agents", "people"])
    assert not shows(person, ["people"], [])
    for narrow in (
        holder("read", "/src/**", kind="person"),
        holder("write", "/**", kind="person"),
        holder("read", "/**", kind="person", workspace="other"),
    ):
        assert not shows(narrow, ["people"])


def test_a_bare_token_counts_as_an_agent() -> None:
    assert not may(holder("write", "/**", kind="token"), POLICY, Verb.WRITE, uri("db/a"))


def test_files_that_are_no_node_s_need_admin_on_everything() -> None:
    authorize_settings(holder("admin", "/**"), OPEN, "kgd.yaml")
    for who in (holder("write", "/**"), holder("admin", "/infra/**"), holder("admin", "/**", workspace="other")):
        with pytest.raises(Forbidden, match=r"kgd\.yaml"):
            authorize_settings(who, OPEN, "kgd.yaml")


@pytest.mark.parametrize(
    ("verbs", "paths", "at"),
    [
        ([], ["/**"], "verbs"),
        (["write"], [], "paths"),
        (["write"], ["infra"], "paths"),
        (["rule"], ["/**"], "verbs"),
        (["write"], ["/x"] * 1 + [f"/{n}" for n in range(70)], "paths"),
    ],
)
def test_a_scope_that_allows_nothing_is_refused(verbs: list[str], paths: list[str], at: str) -> None:
    with pytest.raises(KgdError) as caught:
        Scope.of("ws", verbs, paths)
    assert caught.value.at == at


def test_a_scope_that_covers_no_node_there_is_refused_at_minting() -> None:
    known = [uri("services/a"), uri("b")]
    check_reach(Scope.of("ws", ["read"], ["/services/**", "/b"]), known)
    with pytest.raises(Invalid, match="'/service/\\*\\*' covers no node of 'ws'"):
        check_reach(Scope.of("ws", ["read"], ["/b", "/service/**"]), known)


def test_a_child_is_never_wider_than_its_parent() -> None:
    parent = replace(holder("read,write", "/infra/**", "/docs/*"), expires=1000.0)
    for verbs, paths in (("read", ["/infra/db/**"]), ("write,propose", ["/infra/**"]), ("read", ["/docs/x"])):
        check_narrower(replace(holder(verbs, *paths), expires=900.0), parent)
    wider = [
        replace(holder("read", "/**"), expires=900.0),
        replace(holder("resolve", "/infra/**"), expires=900.0),
        replace(holder("read", "/docs/**"), expires=900.0),
        replace(holder("read", "/infra/**"), expires=1001.0),
        holder("read", "/infra/**"),
        replace(holder("read", "/infra/**", workspace="other"), expires=1.0),
        replace(holder("read", "/infra/**", kind="person"), expires=1.0),
    ]
    for child in wider:
        with pytest.raises(Forbidden):
            check_narrower(child, parent)


def test_a_holder_survives_being_written_and_read() -> None:
    who = replace(holder("read,propose", "/infra/**", "/a%20b"), expires=12.0, parent="p1")
    assert principal_from(who.as_dict()) == who
    for broken in ({}, {"id": 1, "name": "", "kind": "agent", "scopes": []}, {**who.as_dict(), "scopes": [3]}):
        with pytest.raises(Invalid):
            principal_from(broken)


@pytest.mark.parametrize("name", ["", " a", "a\nb", "a <b@c>", "x" * 81, "evil (claude)"])
def test_a_holder_s_name_cannot_pass_for_something_else_in_a_commit(name: str) -> None:
    with pytest.raises(Invalid):
        Principal("id", name, "agent", ())


def test_the_policy_is_part_of_the_settings_and_keeps_its_order() -> None:
    text = b'workspace: ws\npolicy:\n- paths: ["/**"]\n  agents: propose\n- paths: [/notes/**]\n  agents: write\n'
    assert policy_in(text, "ws").rules == decode_settings(text).rules
    assert [rule.agents for rule in policy_in(text, "ws").rules] == ["propose", "write"]


def test_a_refusal_of_a_rule_without_effect_lists_the_effects() -> None:
    with pytest.raises(Invalid) as caught:
        read_rules([{"paths": ["/**"]}])
    for key, value in (("people", "write"), ("agents", "none"), ("code_history", ["people"])):
        assert f"'{key}'" in caught.value.message
        assert read_rules([{"paths": ["/**"], key: value}])


@pytest.mark.parametrize(
    ("text", "line", "rule"),
    [
        ("policy: 3", 2, ""),
        ("policy:\n- agents: write", 3, "policy[0]"),
        ("policy: [{paths: [/**]}]", 2, "policy[0]"),
        ("policy:\n- paths: [/**]\n  agents: maybe", 3, "policy[0].agents"),
        ("policy:\n# why\n  - paths: [/a]\n    agents: none\n  - paths: [b]\n    agents: none", 6, "policy[1].paths"),
        ("policy:\n- paths: [/**]\n  robots: none", 3, "policy[0]"),
        ("policy:\n- paths: [/**]\n  code_history: people", 3, "policy[0].code_history"),
        ("policy:\n- paths: [/**]\n  code_history: [robots]", 3, "policy[0].code_history"),
        ("policy:\n- paths: [/src/**]\n  code_history: [people]", 3, "policy[0].code_history"),
    ],
)
def test_a_policy_that_cannot_be_read_is_refused_with_its_line_and_locks_the_workspace_meanwhile(
    text: str, line: int, rule: str
) -> None:
    data = f"workspace: ws\n{text}\n".encode()
    with pytest.raises(Invalid) as caught:
        decode_settings(data)
    assert caught.value.at == f"kgd.yaml:{line}"
    assert caught.value.message.startswith(rule)
    for broken in (data, None, b"\xff"):
        assert not may(holder("write", "/**", kind="person"), policy_in(broken, "ws"), Verb.PROPOSE, uri("a"))
