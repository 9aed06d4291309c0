"""This file is where the daemon process begins and ends: `python -m kgd.serve`.

The lock is taken before anything large is imported, so that one of many daemons that are started at once survives and
the others are gone within a second, naming it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time

from kgd import __version__
from kgd.client.start import HELD
from kgd.config import Home
from kgd.daemon.lock import HomeLock
from kgd.errors import KgdError, NotFound, Unavailable

ROOM_TRIES = 20
"""How often a hub asks a daemon in its place to go: commands that come meanwhile start another."""
PLACE_SECONDS = 1.0
"""How often the daemon looks whether its lock and socket are still where clients look for them."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from kgd.daemon.calls import Call, LineReader, LineWriter, Peer
    from kgd.daemon.endpoint import Endpoint

    class Served(Protocol):
        """What stands behind the socket; `kgd.serve.parts.Parts` is the real one."""

        def start(self) -> None: ...
        def dispatch(self, call: Call, name: str, args: dict[str, Any], /) -> dict[str, Any]: ...
        def check(self, peer: Peer, /) -> None: ...
        async def serve_mcp(self, peer: Peer, reader: LineReader, writer: LineWriter, /) -> None: ...
        async def close(self) -> None: ...

    MakeParts = Callable[[Home, str], Served]

COLLECT_EVERY = 10_000
"""Objects made before cycles among the youngest are looked for. After 700, as usual, it is a sixth of a wide walk."""

M_ARENA_MAX, M_MMAP_THRESHOLD = -8, -3
"""Of glibc's malloc.h."""
MAPPED_ALONE = 128 << 10
"""Bytes from which memory goes back to the system once it is free. Glibc raises this to 32 MB by itself, and what is
freed then stays in its heaps."""

SWITCH_SECONDS = 0.0005
"""How long a thread may keep the interpreter while another waits; the usual 5 ms show in every read beside a writer."""


def main(argv: Sequence[str] | None = None, make_parts: MakeParts | None = None) -> int:
    """Run the daemon of one home until it is told to stop. With ``--detach`` its pid is printed and this returns.

    `make_parts` is called with the home and the time of the start, once the lock is held.
    """
    options = _options(argv)
    home = Home(options.config, options.state, options.logs) if options.config else Home.find()
    if options.listen:
        try:
            make_parts = _hub_parts(home, options)
        except KgdError as error:
            sys.stderr.write(f"kgd: {error}\n")
            return 2
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    lock = HomeLock(home.lock)
    try:
        home.prepare()
        _acquire(lock, home, since, is_hub=bool(options.listen))
    except KgdError as error:
        sys.stderr.write(f"kgd: {error}\n")
        return HELD if isinstance(error, Unavailable) else 1
    if options.detach:
        if child := os.fork():
            sys.stdout.write(f"{child}\n")
            return 0
        lock.note(__version__, since)
        _leave_terminal()
    try:
        return _run(home, since, lock, make_parts, to_stderr=not options.detach)
    finally:
        lock.release()


def _acquire(lock: HomeLock, home: Home, since: str, *, is_hub: bool) -> None:
    """Hold the home. A hub goes before a daemon that a command has started in the background a moment ago."""
    for tries_left in reversed(range(ROOM_TRIES if is_hub else 1)):
        try:
            return lock.acquire(__version__, since)
        except Unavailable:
            if not tries_left:
                raise
            _make_room(home)


def _run(home: Home, since: str, lock: HomeLock, make_parts: MakeParts | None, *, to_stderr: bool) -> int:
    """The daemon from its first log line to its last. What is large is imported here, after the lock is held."""
    import asyncio
    import faulthandler
    import gc
    import logging

    from kgd.config import one_thread_each
    from kgd.config.registry import RegistryFile
    from kgd.daemon import logs, process

    logs.start(home.log, RegistryFile(home).current().settings.log_level, to_stderr=to_stderr)
    log = logging.getLogger("kgd.serve")
    crash = os.open(os.path.join(home.logs, "crash.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    faulthandler.enable(crash)
    sys.setswitchinterval(SWITCH_SECONDS)
    one_thread_each()
    process.raise_limit()
    _share_memory()
    gc.set_threshold(COLLECT_EVERY)
    gc.disable()  # all that is imported stays: to look for garbage among it is a tenth of the start
    log.info("starting", extra={"version": __version__, "pid": os.getpid(), "home": home.config})
    try:
        asyncio.run(_serve(home, since, lock, make_parts))
    except Exception:
        log.critical("the daemon failed", exc_info=True)
    return 1


def _share_memory() -> None:
    """Have all threads use two heaps. Glibc makes one for nearly each of them, and none gives back what it had."""
    import ctypes

    with contextlib.suppress(AttributeError, OSError):  # other libraries have no such setting
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MAPPED_ALONE)


async def _serve(home: Home, since: str, lock: HomeLock, make_parts: MakeParts | None) -> None:
    """Listen, wait for a reason to stop, and close everything in the opposite order."""
    import asyncio
    import gc
    import logging
    import signal

    from kgd.daemon.endpoint import Endpoint

    if make_parts is None:
        from kgd.serve.parts import Parts

        make_parts = Parts
    log = logging.getLogger("kgd.serve")
    loop = asyncio.get_running_loop()
    parts = make_parts(home, since)
    endpoint = Endpoint(home.socket, __version__, parts.dispatch, parts.serve_mcp, parts.check)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, endpoint.leave, signal.Signals(number).name)
    await endpoint.start()
    gc.freeze()  # nor is it looked through later
    gc.enable()
    parts.start()
    log.info("ready", extra={"socket": home.socket})
    watching = asyncio.create_task(_keep_place(lock, endpoint))
    reason = await endpoint.asked_to_leave
    watching.cancel()
    log.info("leaving", extra={"reason": reason, "connections": endpoint.connections})
    await endpoint.close(retire=reason == "retire")
    await parts.close()
    log.info("stopped")
    logging.shutdown()
    # A worker thread that still waits for something must not keep a daemon that has said good-bye.
    os._exit(0)


async def _keep_place(lock: HomeLock, endpoint: Endpoint) -> None:
    """A socket that somebody cleaned away comes back; a daemon whose home was deleted leaves."""
    import asyncio

    while True:
        await asyncio.sleep(PLACE_SECONDS)
        if not lock.is_there():
            endpoint.leave("the home is gone")
        elif not endpoint.is_there():
            await endpoint.start()


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m kgd.serve", description="The kgd daemon.")
    parser.add_argument("--detach", action="store_true", help="go to the background once the home's lock is held")
    parser.add_argument("--foreground", action="store_true", help="stay in the foreground (the default)")
    parser.add_argument("--listen", metavar="HOST:PORT", help="be a hub: serve others over HTTP")
    parser.add_argument("--workspace", action="append", default=[], help="serve this one; may be repeated (all)")
    parser.add_argument("--tls-cert", default="", help="certificate chain")
    parser.add_argument("--tls-key", default="", help="its key")
    parser.add_argument("--behind-proxy", action="store_true", help="a proxy in front of it ends TLS")
    parser.add_argument("--host-name", action="append", default=[], help="a name that clients call it by")
    for place in ("config", "state", "logs"):
        parser.add_argument(f"--{place}", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def _hub_parts(home: Home, options: argparse.Namespace) -> MakeParts:
    """The parts of a daemon that is a hub. The port is taken first, and a daemon in the background makes room."""
    from kgd.hub.listen import Listen

    listen = Listen.parse(
        options.listen, workspaces=frozenset(options.workspace), cert=options.tls_cert, key=options.tls_key,
        behind_proxy=options.behind_proxy, names=tuple(name.lower() for name in options.host_name),
    )  # fmt: skip
    _refuse_unknown(home, options.workspace)
    listening = listen.open()
    _make_room(home)

    def make(home: Home, since: str) -> Served:
        from kgd.serve.parts import Parts

        return Parts(home, since, (listen, listening))

    return make


def _make_room(home: Home) -> None:
    """Have a daemon that runs in the background finish and end; one that only starts is waited for.

    Raises:
        Unavailable: It is a hub already.
    """
    from kgd.client.start import RETIRE_SECONDS, retire, running

    deadline = time.monotonic() + RETIRE_SECONDS
    while running(home) and time.monotonic() < deadline:
        if where := _listening(home):
            raise Unavailable(f"this home is a hub already, at {where}", next="`kgd down` stops it.")
        retire(home)
        time.sleep(0.02)


def _refuse_unknown(home: Home, ids: Sequence[str]) -> None:
    """A hub that would serve nothing of what it was told to serve has been mistyped."""
    from kgd.config.registry import RegistryFile

    entries = RegistryFile(home).current().entries
    known = [id for id in sorted(entries) if not entries[id].hub]
    for id in ids:
        if id not in known:
            there = f"Known here: {', '.join(known[:8])}." if known else "`kgd up` in its folder makes or registers it."
            raise NotFound(f"no workspace '{id[:63]}' is here to be served", at="--workspace", next=there)


def _listening(home: Home) -> str:
    """Where the daemon of this home is a hub; empty if it is none, or cannot be asked yet or any more."""
    from kgd.client.connection import Connection

    try:
        with Connection(home, start=False) as connection:
            return str(connection.call("status", {})["daemon"].get("listening") or "")
    except (Unavailable, OSError):
        return ""


def _leave_terminal() -> None:
    """No terminal, no directory and none of the starter's streams are kept."""
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)


if __name__ == "__main__":
    sys.exit(main())
