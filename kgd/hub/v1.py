"""The HTTP API: one call of one tool in one workspace per request, parameters and answer as JSON.

One worker thread serves a request from authentication to answer. The answer to a read carries a validator (ETag). If a
client repeats the read with this validator and nothing has changed, the read costs one look-up, and the answer has no
body.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import anyio.to_thread
import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from kgd.code_history.history import CodeHistory
from kgd.daemon.daemon import Daemon
from kgd.daemon.request_bodies import RECOGNISED, Bodies
from kgd.errors import Forbidden, Invalid, KgdError, Unavailable, of_defect
from kgd.hub import NotJson, problem
from kgd.hub.authentication import Caller, FindCaller, Holder
from kgd.hub.openapi import document
from kgd.sync.hubs import HEADER as POSITION
from kgd.sync.hubs import split
from kgd.tools.hubs.browsers import LINK_MINUTES
from kgd.tools.hubs.token_calls import canonical
from kgd.tools.hubs.tokens import ChildParams, describe, mint_child
from kgd.tools.nodes import overlay_of
from kgd.tools.operation import Operation, Reflects
from kgd.tools.parameters import read
from kgd.tools.session import LONGEST_REQUEST
from kgd.workspace.workspace import Workspace

BODY_LIMIT = 4 * 2**20
DEADLINE = 60.0
"""Seconds from a request's header to its answer. A write that has begun by then still completes."""
THREADS = 128
COMPUTING = 10
"""Largest number of reads that only compute and run at once. More threads would take the interpreter from each other:
the slowest hundredth of the calls of 64 clients on two cores would take twice as long, at the same rate."""
NO_STORE = {"cache-control": "no-store"}
REQUEST_ID_LIMIT = LONGEST_REQUEST

log = logging.getLogger("kgd.hub")


class Api:
    """The routes below `/v1`.

    Args:
        described: Returns the OpenAPI document of these routes.
        invite: Returns the path of a page that signs in one browser as the holder of a token; takes the holder's id and
            a workspace id, or "".
        bodies: Counter of request bodies; the surfaces of a hub share one.
    """

    def __init__(
        self,
        daemon: Daemon,
        caller: FindCaller,
        *,
        described: Callable[[], Mapping[str, Any]] = document,
        invite: Callable[[str, str], str] | None = None,
        bodies: Bodies | None = None,
    ) -> None:
        self._bodies = bodies or Bodies()
        self._daemon, self._caller = daemon, caller
        self._described, self._invite = described, invite
        self._threads = anyio.CapacityLimiter(THREADS)
        self._computing = anyio.CapacityLimiter(COMPUTING)
        self._document = b""
        self._trees: dict[str, tuple[object, int]] = {}

    async def tool(self, request: Request) -> Response:
        """``POST /v1/{workspace}/{tool}``"""
        return await self._run(request, self._call)

    async def workspaces(self, request: Request) -> Response:
        """``GET /v1/workspaces``: the workspaces of this token, and its holder."""
        return await self._run(request, self._who)

    async def openapi(self, request: Request) -> Response:
        """``GET /v1/openapi.json``"""
        if not self._document:
            self._document = orjson.dumps(self._described())
        return Response(self._document, media_type="application/json")

    async def mint_child(self, request: Request) -> Response:
        """``POST /v1/tokens``: a token with at most the permissions of the caller's own token."""
        return await self._run(request, self._child)

    async def link(self, request: Request) -> Response:
        """``POST /v1/links``: a link to the pages that signs in one browser, once, as the caller."""
        return await self._run(request, self._link)

    async def _run(self, request: Request, answer: Callable[[_Asked], Response]) -> Response:
        request_id = request.headers.get("x-request-id", "")
        try:
            if len(request_id) > REQUEST_ID_LIMIT or not request_id.isprintable():
                request_id = ""
                raise Invalid(f"a request id is at most {REQUEST_ID_LIMIT} printable characters", at="X-Request-Id")
            with anyio.fail_after(DEADLINE):
                caller = await anyio.to_thread.run_sync(
                    self._caller, request.headers.get("authorization", ""), limiter=self._threads
                )
                if RECOGNISED in request.scope:
                    request.scope[RECOGNISED](caller.line)
                async with self._body(request, caller) as body:
                    asked = _Asked(request, caller, body, request_id)
                    done = await anyio.to_thread.run_sync(
                        self._guarded, answer, asked, limiter=self._limit_of(asked), abandon_on_cancel=True
                    )
        except KgdError as error:
            return problem(error, request_id=request_id)
        except TimeoutError:
            return problem(
                Unavailable(
                    f"the request took longer than {DEADLINE:g} s; its changes may have been written",
                    next="Repeat it with the same request_id; it is applied only once.",
                ),
                request_id=request_id,
            )
        except ClientDisconnect:
            return Response(status_code=400)
        if request_id:
            done.headers["x-request-id"] = request_id
        return done

    def _body(self, request: Request, caller: Caller) -> AbstractAsyncContextManager[bytes]:
        """The body of a request.

        Raises:
            Invalid: Its content type is not JSON. Only JSON is accepted, because a page on another site could send
                other types without the user's knowledge.
        """
        if request.method == "POST":
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise Invalid("the body must be application/json", at="Content-Type")
        declared = request.headers.get("content-length", "0" if request.method == "GET" else None)
        return self._bodies.read(aiter(request.stream()), declared, caller.line, BODY_LIMIT)

    def _limit_of(self, asked: _Asked) -> anyio.CapacityLimiter:
        """The limit on threads that applies to a request.

        Calls that wait must not take the few threads for reads that only compute. A call waits for a commit of another
        hub, for another hub's answer (only the user of this machine can ask one), or for a model that settles
        conflicts.
        """
        # The body is parsed later, on a thread. A search for this word takes a thread of the many, which does no harm.
        waits = POSITION in asked.request.headers or b"resolve" in asked.body
        if waits or not isinstance(asked.caller, Holder):
            return self._threads
        tool = asked.caller.tool(asked.request.path_params.get("tool", ""))
        return self._computing if tool is not None and tool.computes else self._threads

    def _guarded(self, answer: Callable[[_Asked], Response], asked: _Asked) -> Response:
        try:
            with self._daemon.counted():
                asked.caller.spend(len(asked.body))
                return answer(asked)
        except KgdError as error:
            return problem(error)
        except Exception as error:
            log.exception("a request failed", extra={"path": asked.request.url.path[:100]})
            return problem(of_defect(error, next="The hub's log has the details."))

    def _call(self, asked: _Asked) -> Response:
        caller = asked.caller
        workspace = caller.workspace(asked.request.path_params["workspace"])
        name = asked.request.path_params["tool"]
        arguments = asked.arguments()
        if arguments.setdefault("workspace", workspace) != workspace:
            raise Invalid("the path names another workspace", at="workspace", next="Leave it out of the body.")
        tool = caller.tool(name)
        if tool and asked.request_id and "request_id" in tool.Params.model_fields:
            arguments.setdefault("request_id", asked.request_id)
        session = caller.session(asked.client)
        reads = tool is not None and tool.hints.read_only
        if positions := split(asked.request.headers.get(POSITION, "")):
            self._daemon.reach(workspace, positions, required=reads)
        if tool is None or not reads:
            answer = caller.call(session, name, arguments)
            return _json(answer, headers={**NO_STORE, **self._position(workspace)})
        reached = self._position(workspace)
        validator = self._validator(caller, tool, arguments)
        if validator and validator in _tags(asked.request.headers.get("if-none-match", "")):
            read(tool.Params, arguments)
            return Response(status_code=304, headers={"etag": validator, **reached})
        answer = caller.call(session, name, arguments)
        response = _json(answer, headers=reached)
        # Computed before and after: an answer that a commit overtook must not carry either validator.
        if validator and _is_from_here(answer) and validator == self._validator(caller, tool, arguments):
            response.headers["etag"] = validator
            response.headers["cache-control"] = "private, no-cache"
        return response

    def _who(self, asked: _Asked) -> Response:
        return _json(asked.caller.who())

    def _child(self, asked: _Asked) -> Response:
        holder = self._holder(asked).record.holder
        params = read(ChildParams, {**asked.arguments(), "id": holder.id})
        assert isinstance(params, ChildParams)
        made = mint_child(self._daemon.tokens, holder, params)
        answer = {"token": made.text, **describe(made.record, self._daemon.tokens.now())}
        return _json(answer, 201, NO_STORE)

    def _link(self, asked: _Asked) -> Response:
        caller, given = self._holder(asked), asked.arguments()
        workspace = given.pop("workspace", "")
        if given or not isinstance(workspace, str):
            raise Invalid("a link takes only a workspace", at="body", next="Leave out all other fields.")
        if self._invite is None:
            raise Unavailable("this hub does not serve pages", next="Ask its administrator to update kgd.")
        path = self._invite(caller.record.holder.id, caller.workspace(workspace) if workspace else "")
        return _json({"path": path, "minutes": LINK_MINUTES}, 201, NO_STORE)

    def _holder(self, asked: _Asked) -> Holder:
        if not isinstance(asked.caller, Holder):
            raise Forbidden("only token holders can call this", next="Use `kgd token` and `kgd ui`.")
        return asked.caller

    def _validator(self, caller: Caller, tool: Operation, arguments: Mapping[str, Any]) -> str:
        """A digest of everything that an answer depends on; empty if a digest cannot cover all of it.

        A read that belongs to a conversation changes the conversation, so it has no validator.
        """
        theirs, reflects = caller.known(), tool.reflects
        if theirs is None or arguments.get("context_id") or Reflects.NOW in reflects:
            return ""
        opened = self._daemon.opened(caller.workspaces)
        session = caller.session("")
        histories = {
            one.id: CodeHistory.of(one)
            for one in opened
            if Reflects.CODE in reflects and session.sees_code_history(one)
        }
        if not all(one.is_current for one in histories.values()):  # answers change while the code tree is being read
            return ""
        states = [
            (
                one.id,
                one.tip,
                self._tree_number(one) if Reflects.CODE in reflects else 0,
                histories[one.id].tip if one.id in histories else "",
                one.meaning.mark if Reflects.VECTORS in reflects else 0,
            )
            for one in opened
        ]
        known = [self._daemon.since, self._daemon.pid, tool.name, arguments, theirs, states]
        digest = hashlib.blake2b(canonical(known), digest_size=16).hexdigest()
        return f'"{digest}"'

    def _position(self, workspace: str) -> dict[str, str]:
        """The header with the commit that an answer includes."""
        opened = self._daemon.opened_as(workspace)
        return {POSITION: opened.tip} if opened else {}

    def _tree_number(self, workspace: Workspace) -> int:
        """Number of changes of the code tree so far. Keeps the tree alive, so that no new tree can have the same
        identity."""
        overlay = overlay_of(workspace)
        tree = overlay.view if overlay else None
        before, number = self._trees.get(workspace.id, (None, 0))
        if tree is not before:
            number += 1
            self._trees[workspace.id] = tree, number
        return number


class _Asked:
    """One request whose body has arrived."""

    def __init__(self, request: Request, caller: Caller, body: bytes, request_id: str) -> None:
        self.request, self.caller, self.body, self.request_id = request, caller, body, request_id

    @property
    def client(self) -> str:
        found = self.request.headers.get("user-agent", "")[:100]
        return found if found.isprintable() else ""

    def arguments(self) -> dict[str, Any]:
        try:
            found = orjson.loads(self.body or b"{}")
        except orjson.JSONDecodeError:
            raise NotJson("the body is not JSON", at="body", next="Send one JSON object.") from None
        if not isinstance(found, dict):
            raise NotJson("the body is not a JSON object", at="body", next="Send the tool's parameters as one object.")
        return found


def _is_from_here(answer: Mapping[str, Any]) -> bool:
    """Whether every part of an answer came from this machine. This machine does not know of changes on other hubs."""
    nodes = answer.get("nodes", ())
    return not any(link.get("reason") for link in answer.get("broken_links", ())) and not any(
        (node.get("origin") or {}).get("trust") == "remote" for node in nodes if isinstance(node, Mapping)
    )


def _json(answer: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(answer), status, headers, "application/json")


def _tags(header: str) -> set[str]:
    return {tag.strip().removeprefix("W/") for tag in header.split(",")}
