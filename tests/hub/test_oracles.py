"""A narrow token reveals no hidden content: hidden and missing nodes and commits look alike."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from kgd.tools import paging
from tests.hub.conftest import Answer, Hub, filled_hub
from tests.waiting import at_rest, until

AUTH = "concept://infra/services/auth"
HIDDEN, MISSING = "concept://infra/app/checkout", "concept://infra/app/harbour"
Ask = Callable[[str], tuple[str, Mapping[str, Any]]]


def put(change: Callable[[str], dict[str, Any]]) -> Ask:
    return lambda uri: ("put", {"changes": [change(uri)], "dry_run": True})


QUESTIONS: dict[str, Ask] = {
    "get": lambda uri: ("get", {"uris": [uri]}),
    "get, at a commit": lambda uri: ("get", {"uris": [uri], "as_of": "HEAD"}),
    "get, all of it": lambda uri: ("get", {"uris": [uri], "include": ["incoming", "history", "mentions"]}),
    "get, resolving": lambda uri: ("get", {"uris": [uri], "conflicts": "resolve"}),
    "traverse": lambda uri: ("traverse", {"start": uri}),
    "traverse, at a commit": lambda uri: ("traverse", {"start": uri, "as_of": "HEAD"}),
    "search": lambda uri: ("search", {"query": uri.rpartition("/")[2]}),
    "recall": lambda uri: ("recall", {"query": uri.rpartition("/")[2]}),
    "search, near it": lambda uri: ("search", {"query": "auth", "near": [uri]}),
    "context": lambda uri: ("context", {"task": f"look at {uri}"}),
    "history": lambda uri: ("history", {"uri": uri}),
    "blame": lambda uri: ("blame", {"uri": uri}),
    "conflicts": lambda uri: ("conflicts", {"uri": uri}),
    "one conflict": lambda uri: ("conflicts", {"id": f"{uri}#0123456789abcdef"}),
    "resolve": lambda uri: ("resolve", {"resolutions": [{"id": f"{uri}#0123456789abcdef", "side": 0}]}),
    "resolve_conflicts": lambda uri: ("resolve_conflicts", {"uris": [uri], "via": "agent"}),
    "graph_view": lambda uri: ("graph_view", {"uri": uri}),
    "append": put(lambda uri: {"op": "append", "uri": uri, "text": "x"}),
    "delete": put(lambda uri: {"op": "delete", "uri": uri}),
    "upsert": put(lambda uri: {"op": "upsert", "uri": uri, "summary": "x", "expect_version": 1}),
    "move away": put(lambda uri: {"op": "move", "uri": uri, "to": "concept://infra/services/here"}),
    "move there": put(lambda uri: {"op": "move", "uri": AUTH, "to": uri}),
    "relate": put(lambda uri: {"op": "relate", "source": AUTH, "type": "USES", "target": uri}),
    "unrelate": put(lambda uri: {"op": "unrelate", "source": AUTH, "type": "USES", "target": uri}),
    "submit": lambda uri: ("submit_subgraph", {"changes": [{"op": "append", "uri": uri, "text": "x"}]}),
    "query_graph": lambda uri: ("query_graph", {"query": uri}),
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub of its own: texts of other tests are near one of two names by meaning, and not near the other. Its own
    texts, all embedded, are near neither name."""
    for made in filled_hub(tmp_path_factory.mktemp("hub")):
        made.call("search", workspace="infra", query="x")
        until(lambda made=made: at_rest(made.call("status", workspace="infra")))  # type: ignore[misc]
        yield made


@pytest.fixture(scope="module")
def narrow(hub: Hub) -> str:
    return hub.mint("read,write,propose,resolve", "/services/**", name="narrow", requests_per_minute=10_000)


def plain(answer: Answer, uri: str) -> str:
    """An answer without the name that was asked for, and without cursors and times."""
    text = answer.body.decode().replace(uri, "URI").replace(uri.rpartition("/")[2], "NAME")
    text = re.sub(r'"(cursor|age|at|context_id)":("[^"]*"|[0-9.]+),?', "", text)
    return f"{answer.status} {text}"


@pytest.mark.requirement("B5")
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_hidden_node_looks_like_a_missing_one(hub: Hub, narrow: str, question: str) -> None:
    told = []
    for uri in (HIDDEN, MISSING):
        tool, arguments = QUESTIONS[question](uri)
        told.append(plain(hub.post(narrow, f"infra/{tool}", arguments), uri))
    assert "INTERNAL" not in told[0]
    assert told[0] == told[1]


def commits(hub: Hub) -> dict[str, str]:
    """A commit of an open proposal, an unknown commit, and a branch that points to the first."""
    at = hub.workspace("infra")
    here = ["git", "-C", str(at), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    made = subprocess.run(
        [*here, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "waits"], check=True, capture_output=True, text=True
    ).stdout.strip()
    subprocess.run([*here, "update-ref", "refs/heads/proposals/bob-1", made], check=True)
    subprocess.run([*here, "update-ref", "refs/kgd/rejected/bob-2", made], check=True)
    return {
        "proposal": made,
        "short": made[:12],
        "missing": "f" * 40,
        "ref": "proposals/bob-1",
        "rejected": "refs/kgd/rejected/bob-2",
        "kgd's own": "refs/kgd/head",
        "branch": "main",
    }


@pytest.fixture(scope="module")
def names(hub: Hub) -> Iterator[dict[str, str]]:
    yield commits(hub)
    for ref in ("refs/heads/proposals/bob-1", "refs/kgd/rejected/bob-2"):
        subprocess.run(["git", "-C", str(hub.workspace("infra")), "update-ref", "-d", ref], check=True)


@pytest.mark.requirement("B5")
@pytest.mark.parametrize("name", ["proposal", "short", "missing", "ref", "rejected", "kgd's own", "branch"])
@pytest.mark.parametrize("scope", ["/**", "/services/**"])
def test_a_token_names_commits_that_led_to_the_tip_alone(
    hub: Hub, names: dict[str, str], name: str, scope: str
) -> None:
    token, commit = hub.mint("read,write,propose", scope, name="reader"), names[name]
    asked: list[tuple[str, dict[str, Any]]] = [
        ("get", {"uris": [AUTH], "as_of": commit}),
        ("traverse", {"start": AUTH, "as_of": commit}),
        ("history", {"commit": commit}),
        ("history", {"commit": commit, "diff": True}),
        ("put", {"changes": [{"op": "revert", "commit": commit}], "dry_run": True}),
    ]
    for tool, arguments in asked:
        answer = hub.post(token, f"infra/{tool}", arguments)
        assert (answer.status, answer.json["detail"]) == (404, "there is no such commit"), (tool, answer.body)
    submitted = hub.post(
        token, "infra/submit_subgraph", {"changes": [{"op": "append", "uri": AUTH, "text": "x"}], "base": commit}
    )
    assert submitted.status == 422
    assert "not in the history" in submitted.json["detail"]


@pytest.mark.parametrize("name", ["HEAD", "HEAD~1", "", "short"])
def test_a_token_names_the_tip_and_its_ancestors(hub: Hub, name: str) -> None:
    token = hub.mint("read")
    tip = hub.post(token, "infra/history", {"limit": 1}).json["commits"][0]["commit"]
    commit = {"": tip, "short": tip[:10]}.get(name, name)
    assert hub.post(token, "infra/get", {"uris": [AUTH], "as_of": commit}).status == 200
    assert len(hub.post(token, "infra/history", {"commit": commit}).json["commits"]) == 1


def test_the_person_of_the_hubs_machine_names_any(hub: Hub, names: dict[str, str]) -> None:
    assert hub.call("get", workspace="infra", uris=[AUTH], as_of=names["ref"])["as_of"] == names["proposal"]


def test_a_forged_cursor_opens_no_other_commit(hub: Hub, names: dict[str, str]) -> None:
    token = hub.mint("read")
    question: list[object] = [*[None] * 5, [], False]
    answer = hub.post(token, "infra/history", {"cursor": paging.write("history", question, [names["proposal"], 0])})
    assert answer.status == 404, answer.body
