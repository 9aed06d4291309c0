"""Git's smart HTTP, served by git's own program as CGI: clone, fetch and push for any git client.

It serves only the three URLs of the protocol. A body is received completely before a program starts, so that a slow
client cannot keep a program busy; the answer is streamed. The program and its children end with the request or with the
token.

A load balancer may send the requests of one fetch or push to different hubs. Each request relies on the refs that the
previous request showed, so a hub first catches up with the others. If it cannot, git serves the hub's present state.

Git accepts a pack whose objects are deltas against, or refer to, any object of the repository. The holder of a token
that may read only a part could use this to test whether a guessed text exists. Such pushes are therefore unpacked
separately first, and an omitted object must exist at the same path in a commit that the token may build on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import zlib
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import IO
from urllib.parse import parse_qs
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from kgd.daemon.daemon import REACH_SECONDS, Daemon
from kgd.daemon.request_bodies import PATIENCE, RECOGNISED, Bodies, steadily
from kgd.daemon.tokens import TooMuch
from kgd.errors import Damaged, Forbidden, Internal, Invalid, KgdError, Limit, NotFound, Unauthorized, Unavailable
from kgd.git import pack, program
from kgd.git.incoming import scratch_repository
from kgd.git.objects import FOLDER, ObjectId
from kgd.git.refs import NOTES, list_refs
from kgd.git.store import ObjectStore
from kgd.hub import hook
from kgd.hub.authentication import Gate
from kgd.hub.push_execution import ZERO, Receiving, wait_until_published
from kgd.model.access import Verb
from kgd.model.token import TokenRecord
from kgd.workspace.proposals.proposals import open_proposals
from kgd.workspace.workspace import Workspace

SERVICES = ("git-upload-pack", "git-receive-pack")
DEADLINE = 600.0
"""Seconds from the start of a request to its last byte."""
RESULT = "application/x-git-receive-pack-result"
HEADER_LIMIT = 64 << 10
CHUNK = 64 << 10
BODY_LIMIT = program.PACK_LIMIT + (1 << 20)
PROGRAMS = 16
"""Number of git programs at a time; further requests wait."""
SHARE = 4
"""Number of concurrent requests of one token and its children; further requests wait."""
WAITING = 64
"""Number of waiting requests of one token; further requests are refused."""
LARGE_BODIES = 16
"""Number of bodies of the largest size that may be on disk at a time; smaller bodies count by their bytes."""
LOOK_SECONDS = 5.0
"""Seconds between two checks that the token of a running program is still live."""

_PROTOCOL = re.compile(r"[A-Za-z0-9=:.-]{1,100}").fullmatch

log = logging.getLogger("kgd.hub")

HEAD_BYTES = 64 << 10
"""The part of a body in which commits are looked for; git names them first."""
LISTING = b"command=ls-refs"

_NAMED = re.compile(rb"want ([0-9a-f]{40})|\A[0-9a-f]{4}([0-9a-f]{40}) [0-9a-f]{40} refs/").findall
"""The commits that a fetch wants, and the old value of a push's first ref."""


class SmartHttp:
    """`/git/<workspace>`, as an ASGI application."""

    def __init__(self, daemon: Daemon, gate: Gate, receiving: Receiving, folder: Path) -> None:
        """`folder` is for kgd's git hooks; only this user may write there."""
        self._daemon, self._gate, self._receiving = daemon, gate, receiving
        self._hooks = folder
        self._programs = anyio.CapacityLimiter(PROGRAMS)
        self._bodies = Bodies(LARGE_BODIES * BODY_LIMIT, SHARE * BODY_LIMIT)
        self._shares: WeakValueDictionary[str, anyio.CapacityLimiter] = WeakValueDictionary()
        self._running: set[asyncio.subprocess.Process] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            async with asyncio.timeout(DEADLINE):
                await self._serve(request, scope, receive, send)
        except KgdError as error:
            await _refusal(error)(scope, receive, send)
        except ClientDisconnect:
            log.info("a git client disconnected")
        except TimeoutError:
            log.warning("a git request took too long")

    def write_hooks(self) -> None:
        """Write the hooks: shell scripts that start kgd's own file with this Python."""
        self._hooks.mkdir(mode=0o700, exist_ok=True)
        for name in ("pre-receive", "proc-receive"):
            script = (
                "#!/bin/sh\n"
                f'exec "{sys.executable}" -I -S "{Path(hook.__file__).resolve()}" {name} '
                '"$KGD_HUB_SOCKET" "$KGD_HUB_PUSH" "$GIT_QUARANTINE_PATH"\n'
            )
            path = self._hooks / name
            path.write_text(script)
            path.chmod(0o700)

    def close(self) -> None:
        """End every program, and with it the client's connection."""
        for process in self._running:
            _kill(process)

    async def _serve(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        service = _service(request)
        record, workspace = await anyio.to_thread.run_sync(self._admit, request, service)
        line = record.holder.line
        request.scope[RECOGNISED](line)
        share = self._shares.setdefault(line, anyio.CapacityLimiter(SHARE))
        if share.statistics().tasks_waiting >= WAITING:
            raise TooMuch(f"{WAITING} git requests of this token are waiting", int(PATIENCE))
        size = 0
        if request.method == "POST":
            declared = request.headers.get("content-length", "")
            size = min(int(declared), BODY_LIMIT) if declared.isdecimal() else BODY_LIMIT
        async with share, self._bodies.room(line, size):
            with tempfile.TemporaryFile(dir=self._hooks) as body:
                size = await self._store(request, record, body) if size else 0
                encoding = request.headers.get("content-encoding", "")
                await anyio.to_thread.run_sync(follow_named, self._daemon, workspace, body, encoding)
                if size and service == "git-receive-pack" and _is_narrow(record, workspace.id):
                    if "content-encoding" in request.headers:
                        raise Invalid("a push must not have a content encoding", at="Content-Encoding")
                    try:
                        await anyio.to_thread.run_sync(check, body, workspace, record, self._hooks)
                    except Forbidden as error:
                        said = refusal(body, error)
                        await Response(said, media_type=RESULT)(scope, receive, send)
                        return
                async with self._programs:
                    await anyio.to_thread.run_sync(self._gate.still_live, record)
                    await self._run(request, record, workspace, (body, size), (scope, receive, send))

    async def _run(
        self,
        request: Request,
        record: TokenRecord,
        workspace: Workspace,
        body: tuple[IO[bytes], int],
        asgi: tuple[Scope, Receive, Send],
    ) -> None:
        scope, receive, send = asgi
        with self._receiving.expecting(record, workspace) as push:
            async with self._program(request, workspace, record, push, body) as process:
                watching = asyncio.create_task(self._watch(receive, process, record))
                try:
                    status, headers = await _cgi_header(process)
                    rest = _chunks(process)
                    if request.method == "GET" and "receive" in request.url.query and _is_narrow(record, workspace.id):
                        rest = _narrowed(rest)
                    response = StreamingResponse(rest, status, headers)
                    await response(scope, _blocked(receive), _with_timeout(send))
                finally:
                    watching.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await watching

    def _admit(self, request: Request, service: str) -> tuple[TokenRecord, Workspace]:
        """The token's record and the requested workspace. Blocks.

        Raises:
            Forbidden: The token may not fetch or push.
        """
        record = self._gate.admit(request.headers.get("authorization", ""))
        id = self._gate.workspace(record, request.path_params["workspace"].removesuffix(".git"))
        try:
            return record, self._allowed(request, service, record, id)
        except KgdError as error:
            self._daemon.tokens.refused(record.holder.id, service.removeprefix("git-"), error, id)
            raise

    def _allowed(self, request: Request, service: str, record: TokenRecord, id: str) -> Workspace:
        here = [scope for scope in record.holder.scopes if scope.workspace == id]
        if service == "git-upload-pack":
            if _is_narrow(record, id):
                raise Forbidden(
                    f"'{record.holder.name}' may not fetch: a fetch reads the whole workspace, which needs read on /**",
                    next="Use /v1 or /mcp to read the part that the token allows.",
                )
        elif not any(scope.has(Verb.PROPOSE) for scope in here):
            raise Forbidden(f"'{record.holder.name}' may not push: its token has neither propose nor write")
        with self._daemon.open_workspaces.holding():
            workspace = self._daemon.workspace(id)
            if service == "git-receive-pack" and workspace.read_only:
                raise Unavailable(f"this workspace is read-only: {workspace.read_only}")
            if request.method == "GET":  # the first request of a fetch, which must see all acknowledged changes
                follow_listed(self._daemon, workspace)
        return workspace

    @contextlib.asynccontextmanager
    async def _program(
        self, request: Request, workspace: Workspace, record: TokenRecord, push: str, body: tuple[IO[bytes], int]
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        headers = request.headers
        variables = {
            "REQUEST_METHOD": request.method,
            "PATH_INFO": f"/{request.path_params['rest']}",
            "QUERY_STRING": request.url.query if request.method == "GET" else "",
            "CONTENT_TYPE": headers.get("content-type", ""),
            "REMOTE_USER": record.holder.id,
            "REMOTE_ADDR": request.client.host if request.client else "",
            "KGD_HUB_SOCKET": str(self._receiving.socket),
            "KGD_HUB_PUSH": push,
        }
        file, size = body
        if request.method == "POST":
            variables["CONTENT_LENGTH"] = str(size)
        if headers.get("content-encoding") in ("gzip", "x-gzip"):
            variables["HTTP_CONTENT_ENCODING"] = "gzip"
        if _PROTOCOL(protocol := headers.get("git-protocol", "")):
            variables["GIT_PROTOCOL"] = protocol
        hidden = []
        # A push to a hidden name becomes a proposal under the pusher's own name, like a push to a free name.
        if request.method == "GET" and _is_narrow(record, workspace.id):
            hidden = await anyio.to_thread.run_sync(others, workspace, record)
        process = await asyncio.create_subprocess_exec(
            *program.http_backend(),
            stdin=file,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd="/",
            start_new_session=True,
            limit=HEADER_LIMIT,
            env=program.http_environment(workspace.layout.git_dir, self._hooks, variables, NOTES, hidden),
        )
        self._running.add(process)
        complaints = asyncio.create_task(_drain(process))
        try:
            yield process
        finally:
            self._running.discard(process)
            _kill(process)
            await process.wait()
            if said := await complaints:
                log.info("git said", extra={"said": said[-300:], "workspace": workspace.id})

    async def _store(self, request: Request, record: TokenRecord, body: IO[bytes]) -> int:
        """Write the request's body to a file and rewind it; returns its size.

        Raises:
            Limit: The body is too large or too slow.
            TooMuch: The token's quota of bytes is exceeded.
            Unauthorized: The token has been revoked.
        """
        looked, size, counted = time.monotonic(), 0, 0
        async for part in steadily(aiter(request.stream())):
            size += len(part)
            now = time.monotonic()
            if size > BODY_LIMIT:
                raise Limit(f"a push has at most {program.PACK_LIMIT >> 20} MiB")
            if now - looked > LOOK_SECONDS:
                await anyio.to_thread.run_sync(self._gate.still_live, record)
                looked = now
            if size - counted > 1 << 20:
                await self._count(record, size - counted)
                counted = size
            await anyio.to_thread.run_sync(body.write, part)
        if size > counted:
            await self._count(record, size - counted)
        await anyio.to_thread.run_sync(body.seek, 0)
        return size

    async def _watch(self, receive: Receive, process: asyncio.subprocess.Process, record: TokenRecord) -> None:
        """End the program when its client disconnects or its token is no longer live."""
        gone = asyncio.create_task(_disconnect(receive))
        try:
            while not (await asyncio.wait({gone}, timeout=LOOK_SECONDS))[0]:
                await anyio.to_thread.run_sync(self._gate.still_live, record)
        except KgdError as error:
            log.info("a git request was aborted", extra={"reason": str(error)[:100]})
        finally:
            gone.cancel()
        _kill(process)

    async def _count(self, record: TokenRecord, size: int) -> None:
        await anyio.to_thread.run_sync(self._daemon.tokens.spend, record, "bytes", size)


def _is_narrow(record: TokenRecord, workspace: str) -> bool:
    """Whether the token may read only a part of the workspace, and therefore cannot fetch."""
    here = (scope for scope in record.holder.scopes if scope.workspace == workspace)
    return not any(scope.has(Verb.READ) and scope.is_whole for scope in here)


def _service(request: Request) -> str:
    """The requested git service.

    Raises:
        NotFound: The URL is not one of the protocol's three URLs.
    """
    rest, method = request.path_params["rest"], request.method
    if rest == "info/refs" and method == "GET":
        asked = parse_qs(request.url.query).get("service", [""])
        if len(asked) == 1 and asked[0] in SERVICES and request.url.query == f"service={asked[0]}":
            return asked[0]
    elif rest in SERVICES and method == "POST":
        kind = request.headers.get("content-type", "")
        if kind != f"application/x-{rest}-request":
            raise Invalid("this is not a request from a git client", at="Content-Type")
        return str(rest)
    raise NotFound("there is nothing here for a git client", next="Clone with `git clone HUB/git/WORKSPACE`.")


async def _cgi_header(process: asyncio.subprocess.Process) -> tuple[int, dict[str, str]]:
    """The status and headers of the program's CGI answer. Raises Unavailable if the program ended without an answer."""
    assert process.stdout is not None
    status, headers = 200, dict[str, str]()
    while True:
        try:
            line = await process.stdout.readline()
        except ValueError as error:
            raise Internal("git answered with an invalid header") from error
        if not line:
            raise Unavailable("git did not answer", next="Try again.")
        name, colon, value = line.decode("latin-1").rstrip("\r\n").partition(":")
        if not colon:
            return status, headers
        if name.lower() == "status":
            status = int(value.split()[0])
        else:
            headers[name.lower()] = value.strip()


async def _chunks(process: asyncio.subprocess.Process) -> AsyncIterator[bytes]:
    assert process.stdout is not None
    while part := await process.stdout.read(CHUNK):
        yield part


async def _narrowed(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield asking_for_whole_objects(b"".join([part async for part in parts]))


async def _drain(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    said = bytearray()
    while part := await process.stderr.read(CHUNK):
        said += part
        del said[:-4096]
    return said.decode("utf-8", "replace").strip()


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _with_timeout(send: Send) -> Send:
    """Abort when the client reads nothing for `PATIENCE` seconds."""

    async def within(message: Message) -> None:
        async with asyncio.timeout(PATIENCE):
            await send(message)

    return within


def _blocked(receive: Receive) -> Receive:
    """A receive function that never returns, because `_watch` already receives from the client."""

    async def wait() -> dict[str, object]:
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    return wait


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the process group; git's children survive the death of git itself."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _refusal(error: KgdError) -> Response:
    """The refusal in plain text, which git shows to its user."""
    error.__traceback__ = None
    headers = {}
    if isinstance(error, Unauthorized):
        headers["www-authenticate"] = 'Basic realm="kgd: the token is the password", charset="UTF-8"'
    if isinstance(error, TooMuch):
        headers["retry-after"] = str(error.retry_after)
    return PlainTextResponse(f"{error}\n", error.status, headers)


def follow_listed(daemon: Daemon, workspace: Workspace) -> None:
    """Wait, for at most a few seconds, until the branch has all changes that this hub and the others acknowledged."""
    daemon.follow_told(workspace)
    wait_until_published(workspace, bytes.fromhex(workspace.tip))


def follow_named(daemon: Daemon, workspace: Workspace, body: IO[bytes], encoding: str) -> None:
    """Wait, for at most a few seconds, until this hub has the commits that a request names and another hub showed."""
    if daemon.shared is None:
        return
    head = body.read(HEAD_BYTES)
    body.seek(0)
    if encoding in ("gzip", "x-gzip"):
        with contextlib.suppress(zlib.error):
            head = zlib.decompressobj(31).decompress(head, HEAD_BYTES)
    named = {(wanted or old).decode() for wanted, old in _NAMED(head)} - {ZERO}
    missing = [one for one in map(bytes.fromhex, named) if not workspace.store.exists(one)]
    if missing:
        with contextlib.suppress(KgdError):
            daemon.syncing(workspace).wake()
            daemon.syncing(workspace).wake(proposals=True)
        deadline = time.monotonic() + REACH_SECONDS
        while not all(map(workspace.store.exists, missing)) and time.monotonic() < deadline:
            time.sleep(0.01)
    if missing or LISTING in head:
        follow_listed(daemon, workspace)


SUBMODULE = b"160000"
COMMANDS_LIMIT = 1 << 20
UPDATES_LIMIT = 64
SECONDS = 300.0
NO_THIN = b" no-thin"
"""The capability that makes a client send whole objects."""


def others(workspace: Workspace, record: TokenRecord) -> list[str]:
    """The branches hidden from the holder of this token: all except the workspace's branch and the holder's own
    proposals."""
    mine = {name for name, (_, origin) in open_proposals(workspace).items() if origin.is_of(record.holder)}
    return [
        name
        for name in list_refs(workspace.layout.git_dir, "refs/heads/")
        if name != workspace.layout.branch and name not in mine
    ]


def asking_for_whole_objects(advertised: bytes) -> bytes:
    """The answer to `info/refs`, with the capability `no-thin` added to the first ref."""
    start = int(advertised[:4], 16) + 4  # after the service line and a flush
    while (size := int(advertised[start : start + 4] or b"0", 16)) >= 4:
        line = advertised[start + 4 : start + size]
        if b"\0" in line:
            return advertised[:start] + _packet(line.rstrip(b"\n") + NO_THIN + b"\n") + advertised[start + size :]
        start += size  # the protocol version
    return advertised


def check(body: IO[bytes], workspace: Workspace, record: TokenRecord, place: Path) -> None:
    """Check that a push is complete. `body` is at its start before and after the call; `place` is for scratch files.

    Raises:
        Forbidden: The push omits objects, whether or not the repository has them.
        Invalid: The body is not a push.
    """
    scratch = scratch_repository(place)
    try:
        news = [new for new, _ in _asked(body)[1] if any(new)]
        _Push(_unpacked(body, scratch), ObjectStore(scratch), workspace, record).check(news)
    except (Damaged, Limit, ValueError, IndexError):
        raise _left_out() from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        body.seek(0)


class _Push:
    def __init__(self, ids: frozenset[ObjectId], sent: ObjectStore, workspace: Workspace, record: TokenRecord) -> None:
        self._ids, self._sent, self._home = ids, sent, workspace.store
        mine = [tip for tip, origin in open_proposals(workspace).values() if origin.is_of(record.holder)]
        branch = workspace.store.ref(workspace.layout.branch)
        self._tips = [*([branch] if branch else []), bytes.fromhex(workspace.tip), *mine]

    def check(self, news: Iterable[ObjectId]) -> None:
        kinds = ((id, self._sent.kind_and_size(id)) for id in self._ids)
        commits = [self._sent.commit(id) for id, kind in kinds if kind is not None and kind[0] == "commit"]
        needed = {*news, *(parent for commit in commits for parent in commit.parents)} - self._ids
        if not all(map(self._may_build_on, needed)):
            raise _left_out()
        before = list({self._home.tree_of(id) for id in needed})
        for commit in commits:
            self._check_tree(commit.tree, before)

    def _may_build_on(self, id: ObjectId) -> bool:
        kind = self._home.kind_and_size(id)
        return kind is not None and kind[0] == "commit" and any(self._home.is_ancestor(id, tip) for tip in self._tips)

    def _check_tree(self, root: ObjectId, before: Sequence[ObjectId]) -> None:
        """Check that each object in a tree is in the push, or at the same path in a tree that the push builds on."""
        waiting = [(root, list(before))]
        while waiting:
            tree, parents = waiting.pop()
            if tree in parents:
                continue
            if tree not in self._ids:
                raise _left_out()
            folders = [self._home.tree(one) for one in parents]
            for name, (mode, id) in self._sent.tree(tree).items():
                known = [folder[name] for folder in folders if name in folder]
                if (mode, id) in known or mode == SUBMODULE:  # submodules are refused later
                    continue
                if mode == FOLDER:
                    waiting.append((id, [one for kind, one in known if kind == FOLDER]))
                elif id not in self._ids:
                    raise _left_out()


def refusal(body: IO[bytes], error: KgdError) -> bytes:
    """The answer to a push that was refused before git received it, in git's protocol."""
    capabilities, updates = _asked(body)
    reason = f"{error.message[:120]}\n".encode()
    lines = [b"unpack " + reason, *(b"ng %s %s" % (ref, reason) for _, ref in updates[:UPDATES_LIMIT])]
    report = b"".join(map(_packet, lines)) + b"0000"
    if b"side-band-64k" not in capabilities:
        return report
    return _packet(b"\2" + f"{error}\n".encode()) + _packet(b"\1" + report) + b"0000"


def _packet(data: bytes) -> bytes:
    return b"%04x" % (len(data) + 4) + data


def _asked(body: IO[bytes]) -> tuple[bytes, list[tuple[ObjectId, bytes]]]:
    """The client's capabilities and the new value of each ref; `body` is then positioned at the pack."""
    found, capabilities, read = list[tuple[ObjectId, bytes]](), b"", 0
    while size := int(body.read(4) or b"0", 16):
        line, _, more = body.read(size - 4).partition(b"\0")
        capabilities, read = capabilities or more, read + size
        if size < 4 or read > COMMANDS_LIMIT:
            raise Invalid("this is not a push")
        words = line.rstrip(b"\n").split(b" ", 2)
        if len(words) == 3:
            found.append((bytes.fromhex(words[1].decode()), words[2]))
    return capabilities, found


def _unpacked(body: IO[bytes], scratch: Path) -> frozenset[ObjectId]:
    stem = scratch / "objects" / "pack" / "pack-sent"
    with open(stem.with_suffix(".pack"), "wb") as file:
        shutil.copyfileobj(body, file)
        if not file.tell():
            return frozenset()
    bounds = program.Bounds(SECONDS, SECONDS, memory_bytes=program.MEMORY_LIMIT, file_bytes=program.FILE_LIMIT)
    try:
        program.run(scratch, ["index-pack", str(stem.with_suffix(".pack"))], bounds=bounds)
    except program.GitFailed:
        raise _left_out() from None
    return frozenset(pack.ids_of(stem))


def _left_out() -> KgdError:
    return Forbidden(
        "the push leaves out objects that this token may not read",
        next="Base your commits on the branch that `git ls-remote` shows, and push with `--no-thin`.",
    )
