"""The client of a hub: calls one tool of one workspace with a token.

Answers to reads are cached with the hub's validator, so a repeated question costs a short "304 Not Modified". Reads
include the client's earlier writes at other hubs of the same team. Answers are untrusted: they are bounded and
validated, and redirects are not followed.

Several hubs may serve one workspace, and a load balancer may send each request to another hub. An answer carries the
commit that it includes, its *position*. A call that carries positions waits until its hub has them, since a write may
also refer to what the client has just written. A read then fails without them; a write goes on.

The answer to `traverse` becomes a graph patch: plain cards and relations of bounded size. The `Region` that receives
the patch ensures that a hub adds only nodes of its own workspaces.
"""

from __future__ import annotations

import hashlib
import math
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import lru_cache
from typing import Any, TypeVar

import orjson

from kgd.errors import BY_CODE, Advice, KgdError, Stale, Unauthorized, Unavailable, from_dict
from kgd.git.objects import is_id
from kgd.graph.cross_workspace import FAR, AnsweredNode, Patch, Question, Reach
from kgd.graph.edges import UNIT, WEIGHT_DIGITS, Card, Edge
from kgd.http_client import Address, HttpClient, Response
from kgd.model.escaping import fenced_line
from kgd.model.uri import Uri, is_workspace_id, parse, workspace_of

HEADER = "x-kgd-at"
META = "kgd/at"
"""The key in `_meta` of MCP: an object with positions by workspace."""
MOST = 8
"""Largest number of positions of one call."""
KEPT_SECONDS = 600.0
"""Seconds for which a position is sent. Hubs follow their upstream much sooner. A position that a restored backup does
not have would be refused permanently."""


def split(positions: str) -> list[str]:
    """The positions of a header."""
    return [one.strip() for one in positions.split(",") if one.strip()]


class Positions:
    """The last positions of each workspace. Thread-safe.

    Concurrent answers arrive in any order, so a position is replaced only by the answer to a read that carried it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, dict[str, float]] = {}
        self._lock = threading.Lock()

    def of(self, workspace: str) -> list[str]:
        """The positions for the next request, oldest first."""
        oldest = self._clock() - KEPT_SECONDS
        with self._lock:
            return [one for one, at in self._known.get(workspace, {}).items() if at > oldest]

    def answered(self, workspace: str, position: str, included: list[str]) -> None:
        """Record the position of an answer, which replaces the positions that it includes."""
        if not is_id(position):
            return
        with self._lock:
            known = self._known.setdefault(workspace, {})
            for one in (*included, position):
                known.pop(one, None)
            known[position] = self._clock()
            while len(known) > MOST:
                del known[next(iter(known))]


DEADLINE = 2.0
"""Seconds for a read."""
WRITE_DEADLINE = 60.0
"""Seconds for a write: the hub may have to push to its upstream first."""
GRACE = 0.2
"""Seconds beyond the deadline before the caller continues without an answer: name lookup has no timeout of its own."""
TOKEN_SECONDS = 60.0
STUCK = 4
"""Number of hanging calls to one hub at which further calls are refused at once."""
REST_SECONDS = 5.0
"""Seconds without further calls after a hub misses a deadline, so that only one traversal waits for it."""
ANSWER_LIMIT = 8 << 20
KEPT_BYTES = 16 << 20
"""Maximum bytes of cached answers of one client."""
_AGENT = "kgd"

_BY_STATUS = {
    400: "VALIDATION_ERROR",
    401: "UNAUTHORIZED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    409: "INVARIANT_VIOLATION",
    413: "LIMIT",
    422: "VALIDATION_ERROR",
    429: "LIMIT",
    503: "UNAVAILABLE",
}

T = TypeVar("T")


class HubClient:
    """One hub, called with one token. Thread-safe.

    Args:
        url: ``https://host[:port][/base]``; plain http only for this machine.
        token: Called before each request, so that a replaced token is used at once; an empty token is not sent.
        tls: Trusted certificates; by default the system's.
        answered: Called after each answer, refusals included.
    """

    def __init__(
        self,
        url: str,
        token: Callable[[], str] = lambda: "",
        *,
        tls: ssl.SSLContext | None = None,
        answered: Callable[[], None] = lambda: None,
    ) -> None:
        self._http = HttpClient(Address.parse(url), tls)
        self._token, self._answered = token, answered
        self._kept: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()
        self._positions = Positions()

    @property
    def url(self) -> str:
        return str(self._http.address)

    def call(
        self, workspace: str, tool: str, args: Mapping[str, Any], *, reads: bool = False, deadline: float | None = None
    ) -> dict[str, Any]:
        """The structured answer of a tool.

        Args:
            reads: Whether the tool only reads. A read has a shorter deadline, and the hub does not send an unchanged
                answer again.

        Raises:
            KgdError: The hub's refusal, with its code; `Stale` carries the current version.
            Unauthorized: The token is missing, expired or revoked.
            Unavailable: There was no valid answer in time. A write may have been carried out: repeat it with the same
                request id.
            Limit: The answer is longer than 8 MiB.
        """
        if not is_workspace_id(workspace) or not tool.replace("_", "").isalnum():
            raise Unavailable("the name of the workspace or tool is not valid", at=workspace[:63])
        body = orjson.dumps(dict(args), option=orjson.OPT_SORT_KEYS)
        seconds = deadline or (DEADLINE if reads else WRITE_DEADLINE)
        return self._ask("POST", f"/v1/{workspace}/{tool}", body, seconds, keep=reads, workspace=workspace)

    def workspaces(self, *, deadline: float = DEADLINE * 5) -> dict[str, Any]:
        """The hub's `workspaces` and, if a token is sent, its holder."""
        return self._ask("GET", "/v1/workspaces", None, deadline, keep=False)

    def link(self, workspace: str) -> dict[str, Any]:
        """The `path` of a single-use link that signs a browser in as the holder of the token."""
        return self._ask("POST", "/v1/links", orjson.dumps({"workspace": workspace}), DEADLINE * 5, keep=False)

    def close(self) -> None:
        self._http.close()

    def _ask(
        self, method: str, path: str, body: bytes | None, deadline: float, *, keep: bool, workspace: str = ""
    ) -> dict[str, Any]:
        token = self._token()
        headers = {"Accept": "application/json", "User-Agent": _AGENT}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if token:
            headers["Authorization"] = f"Bearer {token}"
        key = _key(path, body, token) if keep else ""
        known = self._known(key) if keep else None
        if known:
            headers["If-None-Match"] = known[0]
        if positions := self._positions.of(workspace):
            headers[HEADER] = ", ".join(positions)
        response = self._http.request(method, path, body, headers, deadline=deadline, limit=ANSWER_LIMIT)
        self._positions.answered(workspace, response.headers.get(HEADER, ""), positions if keep else [])
        if response.status == 304 and known:
            self._answered()
            return self._read(known[1])
        if response.status not in (200, 201):
            refusal = self._refusal(response)
            if not isinstance(refusal, Unavailable):
                self._answered()
            raise refusal
        answer = self._read(response.body)
        self._answered()
        if keep and (validator := response.headers.get("etag", "")):
            self._keep(key, validator, response.body)
        return answer

    def _read(self, body: bytes) -> dict[str, Any]:
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise self._not_a_hub() from error
        if not isinstance(answer, dict):
            raise self._not_a_hub()
        return answer

    def _refusal(self, response: Response) -> KgdError:
        """The error for a refusal: from its problem details, or Unavailable if the answer did not come from a hub."""
        if 300 <= response.status < 400:
            return Unavailable(
                "the hub redirects to another address; kgd does not follow redirects",
                at=self.url,
                next="If you trust that address, put it into workspaces.yaml.",
            )
        said = response.json()
        if response.status == 401:
            words, then = (said.get("detail"), said.get("next")) if isinstance(said, dict) else ("", "")
            if not isinstance(words, str) or not words:
                words = "the hub rejects this token: it is missing, expired or revoked"
            if not isinstance(then, str) or not then:
                then = "Ask the hub's administrator for a new one."
            return Unauthorized(words, at=self.url, next=f"{then} Then `kgd join {self.url}`.")
        fallback = _BY_STATUS.get(response.status)
        if not isinstance(said, dict) or fallback is None:
            return Unavailable(f"the hub answered with HTTP status {response.status}", at=self.url)
        code = said.get("code")
        if code not in BY_CODE and code != Stale.code:
            code = fallback
        version = said.get("current_version")
        told = {name: said[name] for name in ("at", "next") if isinstance(said.get(name), str)}
        if "next" in told:
            told["next"] = Advice.received(told["next"], said.get("advice"))
        words = next(
            (said[n] for n in ("message", "detail", "title") if isinstance(said.get(n), str)), "the hub refused"
        )
        return from_dict(
            {**told, "code": code, "message": words, "current_version": version if isinstance(version, int) else 0}
        )

    def _not_a_hub(self) -> Unavailable:
        return Unavailable("the server is not a kgd hub", at=self.url, next="Check the address in workspaces.yaml.")

    def _known(self, key: str) -> tuple[str, bytes] | None:
        with self._lock:
            found = self._kept.get(key)
            if found:
                self._kept.move_to_end(key)
            return found

    def _keep(self, key: str, validator: str, body: bytes) -> None:
        with self._lock:
            old = self._kept.pop(key, None)
            self._held += len(body) - (len(old[1]) if old else 0)
            self._kept[key] = validator, body
            while self._held > KEPT_BYTES:
                self._held -= len(self._kept.popitem(last=False)[1][1])


def _key(path: str, body: bytes | None, token: str) -> str:
    """The cache key. It contains the token, because another token may not see the same answer."""
    return hashlib.blake2b(b"\0".join((path.encode(), body or b"", token.encode())), digest_size=16).hexdigest()


class Hub:
    """One hub with one token, and its health. Thread-safe.

    The token is cached for a minute and read again when the hub rejects it: a keyring is slower than a hub.
    """

    def __init__(self, url: str, secret: Callable[[], str], answered: Callable[[], None]) -> None:
        self.client = HubClient(url, self._token, answered=answered)
        self._secret, self._known, self._known_until = secret, "", 0.0
        self._resting_until = 0.0
        self._stuck = 0
        self._lock = threading.Lock()
        self.problem = ""
        self.checked_at = -math.inf
        """When the owner last checked this hub, as `time.monotonic`."""

    def forget_token(self) -> None:
        self._known_until = 0.0

    def ask(self, job: Callable[[HubClient], T], deadline: float) -> T:
        """Run `job` in a thread and return its result; after `deadline` seconds the thread is abandoned.

        Raises:
            KgdError: Raised by the job.
            Unavailable: The deadline passed, or an earlier call missed its deadline a few seconds ago.
        """
        if self._stuck >= STUCK or time.monotonic() < self._resting_until:
            raise Unavailable(f"the hub is not asked again for some seconds: {self.problem}", at=self.client.url)
        started, done = time.monotonic(), Future[T]()
        threading.Thread(target=_settle, args=(done, job, self.client), name="kgd-hub", daemon=True).start()
        try:
            found = done.result(deadline + GRACE)
        except TimeoutError:
            self._count_stuck(1)
            done.add_done_callback(lambda _: self._count_stuck(-1))
            self.problem = f"it did not answer within {deadline:.3g} s"
            self._resting_until = time.monotonic() + REST_SECONDS
            raise Unavailable(self.problem, at=self.client.url) from None
        except Unauthorized as error:
            self.forget_token()
            self.problem = error.message
            raise
        except Unavailable as error:
            self.problem = error.message
            if time.monotonic() - started > deadline * 0.9:
                self._resting_until = time.monotonic() + REST_SECONDS
            raise
        self.problem, self._resting_until = "", 0.0
        return found

    def _token(self) -> str:
        if time.monotonic() >= self._known_until:
            self._known, self._known_until = self._secret(), time.monotonic() + TOKEN_SECONDS
        return self._known

    def _count_stuck(self, change: int) -> None:
        with self._lock:
            self._stuck += change


def _settle(done: Future[T], job: Callable[[HubClient], T], client: HubClient) -> None:
    try:
        done.set_result(job(client))
    except Exception as error:  # noqa: BLE001  raised again in the waiting thread
        done.set_exception(error)


MOST_LINKS = 50_000
LONGEST_NAME = 300
LONGEST_SUMMARY = 100
LONGEST_TYPE = 100
_WHOLE = ("max_cost", "max_depth")
"""Limits that the question sets; reaching them does not make the answer incomplete."""


def patch_from(pages: Sequence[dict[str, Any]], question: Question, *, more: bool) -> Patch:
    """The patch from the pages of one answer; `more` tells whether the hub had further pages.

    Malformed entries are dropped. If the hub cut its answer short, the patch covers less than the question asked for.
    """
    nodes, links = list(_nodes(pages, question)), []
    gone, forbidden, moved = set[Uri](), set[Uri](), dict[Uri, Uri]()
    for page in pages:
        for one in _dicts(page.get("edges")):
            links += _link(one)
        for one in _dicts(page.get("broken_links")):
            links += _link(one)
            target = _uri(one.get("target"))
            if target and one.get("reason") in ("missing", "gone"):
                gone.add(target)
            elif target and one.get("reason") == "forbidden":
                forbidden.add(target)
        starts = set(question.starts)
        gone |= starts & _texts(page.get("missing"))
        forbidden |= starts & _texts(
            [one.get("uri") for one in _dicts(page.get("absent")) if one.get("reason") == "forbidden"]
        )
        for one in _dicts(page.get("nodes")):
            current = _uri(one.get("uri"))
            moved.update((old, current) for old in starts & _texts(one.get("asked")) if current)
    cut = more or any(one.get("limit") not in _WHOLE for page in pages for one in _dicts(page.get("cut")))
    return Patch(
        tuple(nodes),
        tuple(links[:MOST_LINKS]),
        _reach(question, nodes, cut),
        moved,
        frozenset(gone),
        frozenset(forbidden),
        {told.card.uri: stamp for told, stamp in _stamped(pages, nodes)},
    )


def _nodes(pages: Sequence[dict[str, Any]], question: Question) -> Iterable[AnsweredNode]:
    hops: dict[Uri, int] = {}
    for one in (one for page in pages for one in _dicts(page.get("nodes"))):
        uri, cost, steps = _uri(one.get("uri")), one.get("cost"), _hops(one, hops)
        if uri is None or uri in hops or len(hops) >= question.max_nodes:
            continue
        if not isinstance(cost, int | float) or not 0 <= cost <= FAR // UNIT or steps is None:
            continue
        hops[uri] = steps
        card = Card(
            uri,
            _line(one.get("type"), LONGEST_TYPE) or "concept",
            _line(one.get("name"), LONGEST_NAME),
            _line(one.get("summary"), LONGEST_SUMMARY),
            None if one.get("stored") is False else b"",
            workspace_of(uri) or question.workspace,
        )
        yield AnsweredNode(card, round(cost * UNIT), steps)


def _hops(one: dict[str, Any], known: Mapping[Uri, int]) -> int | None:
    """The number of relations on the path to a node. Hubs up to version 0.1.0 list the whole path."""
    if "path" in one:
        return len(one["path"]) if isinstance(one["path"], list) else None
    via = one.get("via", {})
    if not via or not isinstance(via, dict):
        return 0 if via == {} else None
    steps = [*_dicts(via.get("through")), via]
    before = _uri(steps[0].get("from"))
    return known[before] + len(steps) if before and before in known else None


def _reach(question: Question, nodes: Sequence[AnsweredNode], cut: bool) -> Reach:
    cost = FAR if question.max_cost is None else round(question.max_cost * UNIT)
    hops = FAR if question.max_depth is None else question.max_depth
    return Reach(min(cost, max((told.cost for told in nodes), default=0)) if cut else cost, hops)


def _stamped(
    pages: Sequence[dict[str, Any]], nodes: Sequence[AnsweredNode]
) -> Iterable[tuple[AnsweredNode, tuple[str, str]]]:
    known = {told.card.uri: told for told in nodes}
    for one in (one for page in pages for one in _dicts(page.get("nodes"))):
        told, origin = known.get(_uri(one.get("uri")) or Uri("")), one.get("origin")
        if told and isinstance(origin, dict):
            yield told, stamp_of(origin)


def stamp_of(origin: dict[str, Any]) -> tuple[str, str]:
    """The commit and the author of an origin, empty if missing."""
    commit = origin.get("commit")
    is_id = isinstance(commit, str) and len(commit) in (40, 64) and set(commit) <= set("0123456789abcdef")
    return str(commit) if is_id else "", _line(origin.get("author"), LONGEST_NAME)


def _link(one: dict[str, Any]) -> list[tuple[Uri, Edge]]:
    source, target, weight = _uri(one.get("source")), _uri(one.get("target")), one.get("weight")
    type = _line(one.get("type"), LONGEST_TYPE)
    if not source or not target or not type or isinstance(weight, bool) or not isinstance(weight, int | float):
        return []
    return [(source, Edge(round(float(weight), WEIGHT_DIGITS), target, type))] if 0 <= weight <= 1 else []


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _texts(value: Any) -> set[str]:
    return {one for one in value if isinstance(one, str)} if isinstance(value, list) else set()


def _line(value: Any, limit: int) -> str:
    return fenced_line(value, limit) if isinstance(value, str) else ""


def _uri(value: Any) -> Uri | None:
    """The value as a URI, or None if it is not canonical; hubs send canonical URIs."""
    return _canonical(value) if isinstance(value, str) and len(value) <= 4_096 else None


@lru_cache(maxsize=4_096)
def _canonical(value: str) -> Uri | None:
    """The result is cached: each URI occurs several times in an answer, and again in the next answer."""
    try:
        uri = parse(value)
    except KgdError:
        return None
    return uri if uri == value else None
