"""The HTTP API: authentication, visibility and refusals."""

from __future__ import annotations

import json
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from jsonschema import Draft202012Validator

from kgd.errors import Unauthorized
from kgd.hub.authentication import token_in
from kgd.model import token as token_text
from tests.hub.conftest import Answer, Hub
from tests.waiting import until

AUTH = "concept://infra/services/auth"
CHECKOUT = "concept://infra/app/checkout"


def refused(answer: Answer, status: int, code: str) -> dict[str, Any]:
    problem = answer.json
    assert (answer.status, problem["code"]) == (status, code), problem
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["status"] == status
    return problem


# ---- who comes in


def test_health_needs_no_token_and_says_nothing(hub: Hub) -> None:
    answer = hub.ask("GET", "/health")
    assert answer.status == 200
    assert answer.json.keys() == {"status", "version"}


def test_a_token_reads_its_workspace(hub: Hub) -> None:
    answer = hub.post(hub.mint(), "infra/get", {"uris": ["services/auth"]})
    assert answer.status == 200
    assert answer.json["nodes"][0]["summary"] == "Issues tokens"


@pytest.mark.requirement("B5")
def test_without_a_live_token_of_this_hub_reads_are_refused(hub: Hub) -> None:
    good = hub.mint()
    foreign, _, _ = token_text.write("agent", b"zzzzzz", bytes(32))
    mistyped = good[:-9] + ("A" if good[-9] != "A" else "B") + good[-8:]
    gone = hub.mint()
    hub.call("token_revoke", id=gone.split("_")[2])
    for text in ("", foreign, mistyped, gone, "kgd", good + "x"):
        answer = hub.post(text, "infra/get", {"uris": ["services/auth"]})
        problem = refused(answer, 401, "UNAUTHORIZED")
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert good not in json.dumps(problem)
    assert "mistyped" in hub.post(mistyped, "infra/get").json["detail"]


def test_a_revoked_token_fails_at_its_next_request_on_an_open_connection(hub: Hub) -> None:
    token = hub.mint()
    assert hub.post(token, "infra/status").status == 200
    hub.call("token_revoke", id=token.split("_")[2])
    assert hub.post(token, "infra/status").status == 401


@pytest.mark.parametrize(
    "header", ["Basic !!!", "Basic " + "QQ==" * 400, "Digest x", "Bearer", "bearer  ", "Bearer \u00e9"]
)
def test_a_header_that_holds_no_token_is_refused(header: str) -> None:
    with pytest.raises(Unauthorized):
        token_in(header)


def test_workspaces_out_of_scope_or_not_served_look_missing(hub: Hub) -> None:
    infra = hub.mint()
    private = hub.mint(workspace="private")
    told = [
        refused(hub.post(token, f"{workspace}/get", {"uris": ["x"]}), 404, "NOT_FOUND")
        for token, workspace in ((infra, "shop"), (infra, "private"), (infra, "nothing"), (private, "private"))
    ]
    assert len({one["detail"] for one in told}) == 1
    assert hub.ask("GET", "/v1/workspaces", infra).json["workspaces"] == ["infra"]
    assert hub.ask("GET", "/v1/workspaces", private).json["workspaces"] == []
    both = hub.post(infra, "infra/get", {"uris": ["concept://shop/cart", "concept://private/diary"]})
    assert both.status != 200 or both.json["nodes"] == []
    assert b"buy" not in both.body


def test_paths_beyond_the_scope_are_not_read(hub: Hub) -> None:
    token = hub.mint(paths="/services/**")
    assert hub.post(token, "infra/get", {"uris": [AUTH]}).status == 200
    assert b"way to pay" not in hub.post(token, "infra/get", {"uris": [CHECKOUT]}).body
    assert b"checkout" not in hub.post(token, "infra/search", {"query": "way to pay"}).body


def test_the_holder_is_the_author(hub: Hub) -> None:
    token = hub.mint("read,write", name="Dana from billing")
    changes = [{"op": "upsert", "uri": "concept://infra/services/dana", "summary": "By Dana"}]
    done = hub.post(token, "infra/put", {"changes": changes, "message": "told by Dana"})
    assert done.status == 200, done.json
    history = hub.call("history", workspace="infra", uri="concept://infra/services/dana")
    assert history["commits"][0]["author"].startswith("Dana from billing")
    entries = hub.call("token_log", id=token.split("_")[2])["entries"]
    assert (entries[0]["action"], entries[0]["detail"]) == ("put", f"commit {done.json['commit']}")


@pytest.mark.requirement("B5")
def test_a_write_outside_the_scope_is_refused_by_name(hub: Hub) -> None:
    token = hub.mint("read,write", "/services/**")
    change = {"op": "upsert", "uri": CHECKOUT, "summary": "Mine now"}
    problem = refused(hub.post(token, "infra/put", {"changes": [change]}), 403, "FORBIDDEN")
    assert CHECKOUT in json.dumps(problem)
    proposer = hub.mint("propose", "/services/**")
    refused(hub.post(proposer, "infra/put", {"changes": [{**change, "uri": AUTH}]}), 403, "FORBIDDEN")


def test_an_unreadable_workspace_is_reported_as_such_and_not_as_forbidden(hub: Hub) -> None:
    token = hub.mint("read,write", "/services/**")
    for change, said in (
        ({"op": "relate", "source": "services/auth", "type": "see", "target": ""}, "a URI or path is needed"),
        ({"op": "upsert", "uri": "concept:", "name": "x"}, "needs at least one segment"),
    ):
        answer = hub.post(token, "infra/put", {"changes": [change]})
        assert said in answer.json["detail"]
        assert answer.status == 422
    answer = hub.post(token, "infra/put", {"changes": [{"op": "upsert", "uri": "two words", "name": "x"}]})
    assert "may not write concept://infra/two%20words" in answer.json["detail"]


def test_tools_of_the_hubs_own_machine_are_not_there(hub: Hub) -> None:
    token = hub.mint("read,write,resolve,admin")
    for tool in ("doctor", "up", "uninstall", "token_mint", "token_list", "workspaces", "nothing"):
        refused(hub.post(token, f"infra/{tool}", {"name": "x", "workspace": "infra"}), 404, "NOT_FOUND")
    refused(hub.post(hub.mint(), "infra/sync"), 404, "NOT_FOUND")
    for source in ({"source": str(hub.folder)}, {"source": "/etc/hostname"}, {}):
        refused(hub.post(token, "infra/ingest", source), 403, "FORBIDDEN")


def test_a_text_is_ingested_where_a_token_may_write(hub: Hub) -> None:
    text = {"text": "# Paying\n\nHow to pay.\n", "uri": "document://infra/services/paying"}
    taken = hub.post(hub.mint("read,write", "/services/**"), "infra/ingest", text)
    assert json.loads(taken.body)["counts"]["documents_new"] == 1
    for also in ({}, {"dry_run": True}, {"text": "# Other\n\nWords.\n"}):
        refused(hub.post(hub.mint("read,write", "/other/**"), "infra/ingest", {**text, **also}), 403, "FORBIDDEN")
    refused(hub.post(hub.mint("read"), "infra/ingest", text), 403, "FORBIDDEN")


def test_status_tells_nothing_of_the_machine(hub: Hub) -> None:
    answer = hub.post(hub.mint(paths="/services/**"), "infra/status")
    assert str(hub.folder).encode() not in answer.body
    assert b"private" not in answer.body


# ---- refusals


@pytest.mark.parametrize(
    ("body", "status"), [(b"{", 400), (b"[]", 400), (b'"x"', 400), (b'{"uris": 5}', 422), (b'{"nope": 1}', 422)]
)
def test_an_unreadable_body_is_refused_with_the_reason(hub: Hub, body: bytes, status: int) -> None:
    refused(hub.ask("POST", "/v1/infra/get", hub.mint(), body), status, "VALIDATION_ERROR")


def test_a_page_cannot_ask(hub: Hub) -> None:
    token, body = hub.mint(), b'{"uris":["services/auth"]}'
    assert hub.ask("POST", "/v1/infra/get", token, body, {"Content-Type": "text/plain"}).status == 422
    assert hub.ask("POST", "/v1/infra/get", token, body, {"Origin": "https://evil.example"}).status == 403
    assert hub.ask("POST", "/v1/infra/get", token, body, {"Origin": "null"}).status == 403
    assert hub.ask("POST", "/v1/infra/get", token, body, {"Host": "evil.example"}).status == 421
    assert hub.ask("GET", "/git/infra/info/refs?service=git-upload-pack", token, None, {"Host": "evil"}).status == 421
    assert "access-control-allow-origin" not in hub.ask("OPTIONS", "/v1/infra/get", token).headers


@pytest.mark.parametrize("twice", ["Origin", "Host"])
def test_a_request_that_names_two_places_is_refused(hub: Hub, twice: str) -> None:
    place = urlsplit(hub.url)
    here = {"Origin": f"http://{place.netloc}", "Host": place.netloc}
    evil = {"Origin": "https://evil.example", "Host": "evil.example"}[twice]
    for pair in ((evil, here[twice]), (here[twice], evil)):
        lines = [(name, value) for name, value in here.items() if name != twice] + [(twice, value) for value in pair]
        head = "".join(f"{name}: {value}\r\n" for name, value in lines)
        with socket.create_connection((place.hostname or "", place.port or 0), timeout=60) as one:
            one.sendall(f"GET /health HTTP/1.1\r\n{head}\r\n".encode())
            assert one.recv(100).startswith(b"HTTP/1.1 400 ")


def test_too_much_is_refused_before_it_is_read(hub: Hub) -> None:
    token = hub.mint()
    refused(hub.ask("POST", "/v1/infra/get", token, b'"' + b"x" * (5 << 20) + b'"'), 413, "LIMIT")


def test_a_workspace_in_the_body_cannot_differ_from_the_path(hub: Hub) -> None:
    refused(hub.post(hub.mint(), "infra/get", {"uris": ["x"], "workspace": "shop"}), 422, "VALIDATION_ERROR")


def test_a_used_up_quota_says_when_to_ask_again(hub: Hub) -> None:
    token = hub.mint("read,write", requests_per_minute=2, nodes_per_day=1)
    changes = [{"op": "upsert", "uri": f"concept://infra/q/{n}", "summary": "x"} for n in range(2)]
    refused(hub.post(token, "infra/put", {"changes": changes}), 429, "LIMIT")
    hub.post(token, "infra/status")
    answer = hub.post(token, "infra/status")
    refused(answer, 429, "LIMIT")
    assert 1 <= int(answer.headers["retry-after"]) <= 60


@pytest.mark.parametrize(
    "path", ["/v1/infra", "/v1/../etc", "/nothing", "/v1/infra/get/x", "/git/infra/objects/info/packs"]
)
def test_other_addresses_are_not_there(hub: Hub, path: str) -> None:
    assert hub.ask("GET", path, hub.mint()).status in (404, 405)


def test_a_request_id_comes_back_and_applies_a_change_once(hub: Hub) -> None:
    token, other = hub.mint("read,write"), hub.mint("read,write")
    change = {"changes": [{"op": "append", "uri": "concept://infra/services/once", "text": "once"}]}
    made = {"changes": [{"op": "upsert", "uri": "concept://infra/services/once", "summary": "made"}]}
    hub.post(token, "infra/put", made)
    first = hub.post(token, "infra/put", change, X_Request_Id="r-1")
    again = hub.post(token, "infra/put", change, X_Request_Id="r-1")
    assert first.headers["x-request-id"] == "r-1"
    assert again.json["commit"] == first.json["commit"]
    assert again.json["repeated"] is True
    refused(hub.post(token, "infra/put", {**change, "message": "other"}, X_Request_Id="r-1"), 422, "VALIDATION_ERROR")
    assert hub.post(other, "infra/put", change, X_Request_Id="r-1").json["commit"] != first.json["commit"]
    node = hub.post(token, "infra/get", {"uris": ["services/once"]}).json["nodes"][0]
    assert node["content"].split() == ["once", "once"]


# ---- validators


def test_an_unchanged_read_is_answered_without_a_body_until_something_changes(hub: Hub) -> None:
    token = hub.mint("read,write")
    walk = {"start": AUTH, "max_cost": 2}
    hub.post(token, "infra/traverse", walk)
    first = hub.post(token, "infra/traverse", walk)
    tag = first.headers["etag"]
    again = hub.post(token, "infra/traverse", walk, If_None_Match=tag)
    assert (again.status, again.body) == (304, b"")
    assert hub.post(token, "infra/traverse", {**walk, "max_cost": 3}, If_None_Match=tag).status == 200
    assert hub.post(hub.mint(paths="/services/**"), "infra/traverse", walk, If_None_Match=tag).status == 200
    hub.put("concept://infra/services/fresh", summary="Something changed")
    changed = hub.post(token, "infra/traverse", walk, If_None_Match=tag)
    assert changed.status == 200
    assert changed.headers["etag"] != tag


def test_a_validator_does_not_replace_a_token(hub: Hub) -> None:
    token = hub.mint()
    hub.post(token, "infra/get", {"uris": [AUTH]})
    tag = hub.post(token, "infra/get", {"uris": [AUTH]}).headers["etag"]
    hub.call("token_revoke", id=token.split("_")[2])
    assert hub.post(token, "infra/get", {"uris": [AUTH]}, If_None_Match=tag).status == 401


@pytest.mark.slow
def test_a_validator_changes_when_a_write_becomes_searchable_by_meaning(own_hub: Callable[..., Hub]) -> None:
    """Texts are embedded after the commit, and then the same search answers something else."""
    hub = own_hub().start()
    hub.put("concept://infra/cars", summary="Automobiles and their engines")
    token, question = hub.mint(), {"query": "vehicle motor"}
    first = hub.post(token, "infra/search", question)

    def found() -> bool:
        tagged = {"If_None_Match": first.headers["etag"]} if "etag" in first.headers else {}
        fresh = hub.post(token, "infra/search", question)
        asked = hub.post(token, "infra/search", question, **tagged)  # second: what changed in between shows in it too
        if fresh.json["hits"] and asked.status == 304:
            assert first.json["hits"], "answered as unchanged, although there is a new result"
        return bool(fresh.json["hits"])

    assert not first.json["hits"], "it is found by its meaning alone"
    until(found)


def test_a_node_stays_unchanged_while_texts_are_embedded(hub: Hub) -> None:
    hub.put("concept://infra/pets", summary="A kitten sleeps on the sofa")
    token, read = hub.mint(), {"uris": [AUTH]}
    tag = hub.post(token, "infra/get", read).headers["etag"]
    until(lambda: bool(hub.post(token, "infra/search", {"query": "cat couch"}).json["hits"]))
    assert hub.post(token, "infra/get", read, If_None_Match=tag).status == 304


def test_a_validator_tells_nothing_of_workspaces_that_a_token_is_not_for(hub: Hub) -> None:
    token, read = hub.mint(), {"uris": [AUTH]}
    hub.post(token, "infra/get", read)
    tag = hub.post(token, "infra/get", read).headers["etag"]
    hub.put("concept://private/diary", summary="Another page")
    hub.put("concept://shop/cart", summary="What a person wants to buy today")
    assert hub.post(token, "infra/get", read, If_None_Match=tag).status == 304


def test_a_token_that_may_search_may_recall(hub: Hub) -> None:
    answer = hub.post(hub.mint(), "infra/recall", {"query": "tokens"})
    assert answer.status == 200, answer.body
    assert AUTH in [hit["uri"] for hit in answer.json["hits"]]


@pytest.mark.parametrize("depth", [100, 300, 900])
@pytest.mark.parametrize(
    ("tool", "body"),
    [
        ("put", '{"changes": [{"op": "upsert", "uri": "a", "data": {"k": %s}}]}'),
        ("put", '{"changes": [{"op": "upsert", "uri": "a", "data": {"k": %s}}], "request_id": "deep"}'),
        ("get", '{"uris": %s}'),
        ("history", '{"limit": %s}'),
        ("nosuch", '{"x": %s}'),
    ],
)
def test_deeply_nested_parameters_are_refused_as_such(hub: Hub, tool: str, body: str, depth: int) -> None:
    token = hub.mint("read,write", name="deep")
    answer = hub.ask("POST", f"/v1/infra/{tool}", token, (body % ("[" * depth + "]" * depth)).encode())
    assert answer.status in (404, 413, 422)
    assert answer.json["code"] in ("NOT_FOUND", "LIMIT", "VALIDATION_ERROR")


# ---- narrower tokens


def test_a_holder_hands_on_less_than_it_has(hub: Hub) -> None:
    token = hub.mint("read,write", "/services/**")
    made = hub.post(token, "tokens", {"name": "sub-agent", "verbs": "read", "paths": "/services/auth"})
    assert made.status == 201
    child = made.json["token"]
    assert hub.post(child, "infra/get", {"uris": [AUTH]}).status == 200
    change = {"changes": [{"op": "append", "uri": AUTH, "text": "x"}]}
    refused(hub.post(child, "infra/put", change), 403, "FORBIDDEN")
    refused(hub.post(token, "tokens", {"name": "wide", "verbs": "read", "paths": "/**"}), 403, "FORBIDDEN")
    hub.call("token_revoke", id=token.split("_")[2])
    refused(hub.post(child, "infra/get", {"uris": [AUTH]}), 401, "UNAUTHORIZED")


# ---- the document


def _strict(schema: Any) -> Any:
    """The same schema, with nothing allowed that it does not name."""
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _strict(value) for key, value in schema.items()}
    if isinstance(found.get("properties"), dict) and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


NEEDS_MORE = ("sync", "submit_subgraph", "resolve", "accept", "reject", "comment", "advance")
"""Operations that need a remote, a proposal, a conflict or a task, which this hub does not have."""


def test_every_operation_answers_what_the_document_says(hub: Hub) -> None:
    document = hub.ask("GET", "/v1/openapi.json").json
    assert document["openapi"] == "3.1.0"
    token = hub.mint("read,propose,write,resolve,admin")
    hub.put(
        "concept://infra/api/a",
        summary="A",
        content="text",
        tags=["x"],
        data={"n": None},
        relations=[{"type": "see", "target": AUTH}],
    )
    good: dict[str, Any] = {
        "search": {"query": "tokens"},
        "recall": {"query": "tokens"},
        "get": {"uris": ["api/a"], "include": ["content", "relations", "history"]},
        "traverse": {"start": ["api/a"]},
        "history": {"diff": True},
        "status": {},
        "sync": {},
        "put": {"changes": [{"op": "append", "uri": "concept://infra/api/a", "text": "more"}]},
        "resolve_conflicts": {},
        "context": {"question": "tokens"},
        "proposals": {},
        "blame": {"uri": "api/a"},
        "query_graph": {"operation": "context", "paths": ["api/a.py"]},
        "manage_graph": {
            "operation": "create",
            "entityType": "atom",
            "name": "Api",
            "paths": ["api/**"],
            "createdByTaskId": "https://tracker.example/1",
        },
        "manage_changelog": {
            "operation": "append",
            "parentType": "atom",
            "parentId": "Api",
            "taskId": "https://tracker.example/1",
            "summary": "made",
        },
        "accept": {"name": "nobody-1"},
        "reject": {"name": "nobody-1"},
        "comment": {"name": "nobody-1", "text": "Why?"},
        "author": {"name": "billing-agent"},
        "code_file": {"uri": "file://infra/api/a.py"},
        "conflicts": {},
        "resolve": {"resolutions": [{"id": "concept://infra/api/a", "take": "a"}]},
        "submit_subgraph": {"changes": [{"op": "append", "uri": "concept://infra/api/a", "text": "again"}]},
        "ingest": {"text": "Words to be kept.", "uri": "document://infra/api/words"},
        "query_container": {"operation": "search"},
        "advance": {"id": "nobody", "version": 1, "to": "completed"},
    }
    problem = document["components"]["schemas"]["Problem"]
    called = set()
    for path, methods in document["paths"].items():
        (method, operation), *_ = methods.items()
        name = operation["operationId"]
        body = {"name": "kid", "verbs": ["read"]} if name == "mint_child" else good.get(name, {})
        sent = json.dumps(body).encode() if method == "post" else None
        answer = hub.ask(method.upper(), path.replace("{workspace}", "infra"), token, sent)
        described = operation["responses"][str(answer.status)]
        (media, content), *_ = described["content"].items()
        assert answer.headers["content-type"] == media, path
        schema = problem if "$ref" in content["schema"] else content["schema"]
        Draft202012Validator(_strict(schema) if name != "openapi" else schema).validate(answer.json)
        assert answer.status < 300 or name in NEEDS_MORE, (
            path,
            answer.json,
        )
        if sent is not None:
            Draft202012Validator(operation["requestBody"]["content"]["application/json"]["schema"]).validate(body)
            wrong = hub.ask("POST", path.replace("{workspace}", "infra"), token, b'{"no_such_field": 1}')
            refused(wrong, 422, "VALIDATION_ERROR")
            Draft202012Validator(problem).validate(wrong.json)
        called.add(name)
    assert {"search", "get", "traverse", "put", "history", "status", "mint_child", "workspaces", "health"} <= called


# ---- many, and the end


@pytest.mark.slow
@pytest.mark.parametrize(("clients", "calls"), [(12, 4), pytest.param(64, 10, marks=pytest.mark.slow)])
def test_many_clients_at_once_lose_nothing(hub: Hub, clients: int, calls: int) -> None:
    tokens = [hub.mint("read,write", name=f"client-{n}", requests_per_minute=100_000) for n in range(clients)]
    failed: list[Answer] = []

    def work(number: int) -> None:
        for turn in range(calls):
            uri = f"concept://infra/load/{number}-{turn}"
            for tool, args in (
                ("put", {"changes": [{"op": "upsert", "uri": uri, "summary": "x"}]}),
                ("get", {"uris": [uri]}),
            ):
                answer = hub.post(tokens[number], f"infra/{tool}", args)
                if answer.status != 200 or (tool == "get" and not answer.json["nodes"]):
                    failed.append(answer)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[0].json


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_within_three_seconds_with_a_request_open(own_hub: Callable[..., Hub], number: signal.Signals) -> None:
    import socket
    from urllib.parse import urlsplit

    hub = own_hub().start()
    place = urlsplit(hub.url)
    with socket.create_connection((place.hostname or "", place.port or 0)) as half:
        head = f"Host: 127.0.0.1\r\nContent-Type: application/json\r\nAuthorization: Bearer {hub.mint()}\r\n"
        half.sendall(f"POST /v1/infra/get HTTP/1.1\r\n{head}Content-Length: 1000\r\n\r\n{{".encode())
        assert hub.stop(number) < 3


@pytest.mark.slow
def test_an_unreadable_state_refuses_tokens_and_serves_the_local_user(
    own_hub: Callable[..., Hub],
) -> None:
    hub = own_hub()
    path = hub.folder / "home" / "state" / "hub.db"
    path.write_bytes(b"garbage" * 1000)
    path.chmod(0o600)
    hub.start()
    text, _, _ = token_text.write("agent", b"zzzzzz", bytes(32))
    refused(hub.post(text, "infra/get", {"uris": ["x"]}), 503, "DAMAGED")
    hub.put("concept://infra/still/here", summary="Local work goes on")
    path.unlink()
    assert hub.post(hub.mint(), "infra/get", {"uris": ["still/here"]}).json["nodes"]
