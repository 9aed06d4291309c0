"""A hub as an operator's programs see it: probes, metrics, logs with request ids, traces, and a graceful shutdown."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from tests.hub.conftest import ROOT, Hub
from tests.sync.people import git
from tests.waiting import until

AUTH = "concept://infra/services/auth"
OWN = "concept://infra/services/operated"
"""Written by the tests here; other tests share the hub."""
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"

Labelled = dict[tuple[str, ...], float]


def metrics(hub: Hub, workspace: str = "infra") -> dict[str, Labelled]:
    """The values of all samples by name, then by the values of their labels."""
    answer = hub.ask("GET", "/metrics", hub.mint("admin", workspace=workspace))
    assert answer.status == 200, answer.body
    found: dict[str, Labelled] = {}
    for family in text_string_to_metric_families(answer.body.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


# ---- probes


def test_a_hub_in_good_order_is_live_and_ready(hub: Hub) -> None:
    assert hub.ask("GET", "/live").json["status"] == "ok"
    until(lambda: hub.ask("GET", "/ready").status == 200)
    assert hub.ask("GET", "/ready").json == {
        "status": "ready",
        "checks": {"state": "ok", "upstream": "ok", "warm": "ok"},
    }


# ---- metrics


def test_metrics_are_for_administrators_and_name_only_their_workspaces(hub: Hub) -> None:
    assert hub.ask("GET", "/metrics").status == 401
    assert hub.ask("GET", "/metrics", hub.mint("read,write")).status == 403
    assert ("infra",) in metrics(hub)["kgd_nodes"]
    assert {*metrics(hub, "shop")["kgd_nodes"]} == {("shop",)}


def test_requests_and_changes_are_counted(hub: Hub) -> None:
    token, before = hub.mint("read,write"), metrics(hub)
    for number in range(3):
        changes = [{"op": "upsert", "uri": OWN, "summary": str(number)}]
        assert hub.post(token, "infra/put", {"changes": changes}).status == 200
    hub.post(token, "infra/get", {"uris": ["concept://infra/none"], "limit": -1})
    after = metrics(hub)

    def more(name: str, *labels: str) -> float:
        return after[name].get(labels, 0) - before.get(name, {}).get(labels, 0)  # absent until it first counts

    assert more("kgd_requests_total", "v1", "put", "200") == 3
    assert more("kgd_requests_total", "v1", "get", "422") == 1
    assert more("kgd_request_seconds_count", "v1") >= 4
    assert more("kgd_flushed_changes_total") >= 3
    assert after["kgd_workspaces"]["open",] <= after["kgd_workspaces"]["registered",]


def test_strangers_cannot_add_time_series(hub: Hub) -> None:
    token = hub.mint("read")
    hub.post(token, "infra/status")
    hub.ask("GET", "/x1"), hub.ask("GET", "/git/x/y"), hub.post(token, "infra/made-up"), hub.post(token, "a/b")
    before = {*metrics(hub)["kgd_requests_total"]}
    for number in range(5):
        hub.ask("GET", f"/x{number}")
        hub.ask("GET", f"/git/x/{number}")
        hub.post(token, f"infra/made-up-{number}")
    new = {*metrics(hub)["kgd_requests_total"]} - before
    assert {labels[:2] for labels in new} <= {("probe", "metrics")}


def test_the_dashboard_asks_only_for_metrics_that_exist(hub: Hub) -> None:
    answer = hub.ask("GET", "/metrics", hub.mint("admin"))
    families = {family.name for family in text_string_to_metric_families(answer.body.decode())}
    suffixes = ("", "_total", "_bucket", "_sum", "_count")
    names = {f"{family}{suffix}" for family in families for suffix in suffixes}
    asked = set(re.findall(r"\b(?:kgd|process)_\w+", (ROOT / "deploy/grafana.json").read_text()))
    assert len(asked) > 15
    assert asked - names == set()


def test_the_table_in_a_pipe_is_printed_once(hub: Hub) -> None:
    command = [sys.executable, "-P", "-m", "kgd.cli", "hub", "top"]
    done = subprocess.run(command, env=hub.environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "\033" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0].split(",")[0] == "3 of 3 workspaces open"
    assert [line.split()[0] for line in lines if line] >= ["3"]
    assert any(line.split()[:1] == ["infra"] for line in lines)


# ---- request ids


def test_each_answer_names_its_request(hub: Hub) -> None:
    answers = [hub.ask("GET", "/v1/workspaces", hub.mint()) for _ in range(2)]
    made = {answer.headers["x-request-id"] for answer in answers}
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in made)
    assert len(made) == 2
    traced = hub.ask("GET", "/live", headers={"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"})
    assert traced.headers["x-request-id"] == TRACE


def test_the_audit_log_names_the_request_that_a_proxy_named(hub: Hub) -> None:
    token = hub.mint("read,write", "/services/**")
    changes = [{"op": "upsert", "uri": OWN, "summary": "named"}]
    commit = hub.post(token, "infra/put", {"changes": changes}, X_Request_Id="edge-1").json["commit"]
    hub.post(token, "infra/history", {"uri": "concept://infra/app/checkout"}, X_Request_Id="edge-2")
    details = [one.get("detail", "") for one in hub.call("token_log", id=token.split("_")[2])["entries"]]
    assert details[1] == f"commit {commit} [request edge-1]"
    assert details[0].endswith("[request edge-2]")


def test_the_id_of_a_request_cannot_forge_the_text_of_an_audit_line(hub: Hub) -> None:
    token = hub.mint("read,write", "/services/**")
    changes = [{"op": "upsert", "uri": OWN, "summary": "forged"}]
    said = hub.post(token, "infra/put", {"changes": changes}, X_Request_Id="1] [request 2] (9 times)").json
    details = [one.get("detail", "") for one in hub.call("token_log", id=token.split("_")[2])["entries"]]
    assert details[0] == f"commit {said['commit']} [request 1___request_2___9_times_]"


# ---- logs, traces and the end


class Receiver(ThreadingHTTPServer):
    """Receives traces over OTLP."""

    daemon_threads = True

    def __init__(self) -> None:
        self.spans: list[tuple[str, str, str, str]] = []
        """Name, trace, id and parent."""
        super().__init__(("127.0.0.1", 0), Received)


class Received(BaseHTTPRequestHandler):
    server: Receiver

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            import gzip

            body = gzip.decompress(body)
        for one in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in one.scope_spans:
                self.server.spans += [
                    (span.name, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex())
                    for span in scope.spans
                ]
        self.send_response(200)
        self.end_headers()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def slow_put(hub: Hub, token: str, text: str) -> tuple[socket.socket, bytes]:
    """A connection that has sent all of a write but the last byte, and this byte."""
    place = urlsplit(hub.url)
    body = json.dumps({"changes": [{"op": "upsert", "uri": AUTH, "summary": text}]}).encode()
    head = (
        f"POST /v1/infra/put HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    )
    open_one = socket.create_connection((place.hostname or "", place.port or 0), timeout=20)
    open_one.sendall(f"{head}Authorization: Bearer {token}\r\n\r\n".encode() + body[:-1])
    return open_one, body[-1:]


def refuses_connections(hub: Hub) -> bool:
    place = urlsplit(hub.url)
    try:
        socket.create_connection((place.hostname or "", place.port or 0), timeout=20).close()
    except ConnectionError:
        return True
    return False


@pytest.mark.slow
def test_logs_and_traces_follow_a_request_and_a_drained_hub_answers_what_it_has_begun(
    own_hub: Callable[..., Hub], receiver: Receiver
) -> None:
    hub = own_hub("--listen", "127.0.0.1:0", "--behind-proxy", "--drain", "2")
    endpoint = f"http://127.0.0.1:{receiver.server_port}"
    hub.environment |= {"KGD_LOG_FORMAT": "json", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
    hub.start()
    token = hub.mint("read,write")
    changes = [{"op": "upsert", "uri": AUTH, "summary": "one"}]
    parent = f"00-{TRACE}-00f067aa0ba902b7-01"
    commit = hub.post(token, "infra/put", {"changes": changes}, traceparent=parent).json["commit"]

    process = hub.process
    assert process is not None
    begun, last = slow_put(hub, token, "begun")
    until(lambda: hub.ask("GET", "/ready").status == 200)
    process.send_signal(signal.SIGTERM)
    until(lambda: hub.ask("GET", "/ready").json == {"status": "draining"})
    late = hub.post(token, "infra/get", {"uris": [AUTH]})
    assert (late.status, late.headers["connection"]) == (200, "close")
    until(lambda: refuses_connections(hub))
    begun.sendall(last)
    with begun, begun.makefile("rb") as answer:
        assert answer.readline().split()[1] == b"200"
    process.wait(25)

    lines = [json.loads(line) for line in Path(hub.home.log).read_text().splitlines()]
    asked = next(one for one in lines if one["message"] == "request" and one["operation"] == "put")
    assert asked["request_id"] == TRACE
    assert asked["change"] == f"commit {commit}"
    assert (asked["token"], asked["workspace"], asked["status"]) == (token.split("_")[2], "infra", 200)
    spans = {name: (trace, id, above) for name, trace, id, above in receiver.spans if trace == TRACE}
    assert spans["request"][2] == "00f067aa0ba902b7"
    assert spans["put"][2] == spans["request"][1]
    assert spans["commit"][2] == spans["put"][1]


@pytest.mark.slow
def test_a_hub_that_starts_clones_what_its_disk_lacks_without_a_work_tree_and_nothing_twice(
    hub: Hub, tmp_path: Path
) -> None:
    subprocess.run(["git", "clone", "--bare", "-q", hub.folder / "infra", tmp_path / "infra.git"], check=True)
    (tmp_path / "kgd").write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m kgd.cli "$@"\n')
    (tmp_path / "kgd").chmod(0o755)
    tip, place = git(tmp_path / "infra.git", "rev-parse", "main"), tmp_path / "data/infra"
    entry = {"path": str(place), "standalone": True, "remote": str(tmp_path / "infra.git")}
    (tmp_path / "workspaces.yaml").write_text(json.dumps({"workspaces": {"infra": entry}}))
    environment = {
        **hub.environment,
        "PATH": f"{tmp_path}:{hub.environment['PATH']}",
        "KGD_HOME": str(tmp_path / "home"),
        "KGD_CONFIG": str(tmp_path),
        "KGD_WORKSPACES": "infra",
    }
    registered = set[str]()
    for _ in range(2):  # `kgd serve` refuses this address at once
        command = [str(ROOT / "deploy/start-hub"), "--listen", "nonsense"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=100)
        assert "HOST:PORT" in done.stderr
        assert done.stderr.count("kgd:") == 1, done.stderr
        assert [one.name for one in place.iterdir()] == [".git"]
        assert git(place, "config", "core.bare") == "true"
        assert git(place, "rev-parse", "refs/kgd/head") == tip
        registered.add((tmp_path / "home/workspaces.yaml").read_text())
    assert len(registered) == 1
