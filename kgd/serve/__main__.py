"""The daemon process: `python -m kgd.serve`.

The lock is taken before large imports. If many daemons are started at once, one survives; the others end within a
second and report which daemon is running.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from kgd import __version__
from kgd.client.start import HELD
from kgd.config import Home, log_format, log_level, wants_traces
from kgd.daemon.process import HomeLock
from kgd.errors import Invalid, KgdError, NotFound, Unavailable

ROOM_TRIES = 20
"""Number of times that a hub tries to end a running daemon, since commands may start another."""
AWAY = 9
"""Exit code if PostgreSQL does not answer at the start: a service manager starts the hub again, unlike after 2."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from kgd.daemon.calls import Call, LineReader, LineWriter, Peer
    from kgd.daemon.process import Profile
    from kgd.daemon.shared_state import SharedState
    from kgd.oidc import Configuration

    class Served(Protocol):
        """The services behind the socket; implemented by `kgd.serve.parts.Parts`."""

        def start(self) -> None: ...
        def dispatch(self, call: Call, name: str, args: dict[str, Any], /) -> dict[str, Any]: ...
        def check(self, peer: Peer, /) -> None: ...
        async def serve_mcp(self, peer: Peer, reader: LineReader, writer: LineWriter, /) -> None: ...
        async def drain(self) -> None: ...
        async def close(self) -> None: ...

    MakeParts = Callable[[Home, str], Served]


def main(argv: Sequence[str] | None = None, make_parts: MakeParts | None = None) -> int:
    """Run the daemon of one home until it stops. With ``--detach`` print the pid of the daemon and return.

    `make_parts` is called with the home and the start time, while the lock is held.
    """
    options = _options(argv)
    if options.config:  # service files of versions before --home
        options.home, options.state = (options.config, options.state, options.logs), None
    home = Home(*options.home) if options.home else Home.find()
    try:
        if options.oidc and not options.listen:
            raise Invalid("--oidc works only on a hub", at="--oidc", next="Add --listen HOST:PORT.")
        _check_profile(options.profile)
        shared = _shared_state(home, options)
    except KgdError as error:
        sys.stderr.write(f"kgd: {error}\n")
        return AWAY if isinstance(error, Unavailable) else 2
    if options.listen:
        try:
            make_parts = _hub_parts(home, options, shared, _oidc(options))
        except KgdError as error:
            sys.stderr.write(f"kgd: {error}\n")
            return 2
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    lock = HomeLock(home.lock)
    try:
        level, form = "debug" if options.debug else log_level(), log_format()
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
        return _run(home, since, lock, make_parts, (level, form), options)
    finally:
        lock.release()


def _check_profile(path: str) -> None:
    """Raises Invalid if no profile can be written there, since the daemon writes it only when it stops."""
    try:
        if path:
            open(path, "ab").close()
    except OSError as error:
        said = f"the profile cannot be written: {error.strerror}"
        raise Invalid(said, at="--profile", next="Name a file.") from error


def _acquire(lock: HomeLock, home: Home, since: str, *, is_hub: bool) -> None:
    """Take the lock. A hub replaces a daemon that a command started in the background."""
    for tries_left in reversed(range(ROOM_TRIES if is_hub else 1)):
        try:
            return lock.acquire(__version__, since)
        except Unavailable:
            if not tries_left:
                raise
            _make_room(home)


def _run(
    home: Home,
    since: str,
    lock: HomeLock,
    make_parts: MakeParts | None,
    logged: tuple[str, str],
    options: argparse.Namespace,
) -> int:
    """Run the daemon from its first log line to its last. Large imports happen here, while the lock is held."""
    import asyncio
    import gc
    import logging
    from pathlib import Path

    from kgd.config.registry import RegistryFile
    from kgd.daemon import process

    level = logged[0] or RegistryFile(home).current().settings.log_level
    process.start_log(home.log, level, to_stderr=not options.detach, as_json=logged[1] == "json")
    if options.listen and wants_traces():
        from kgd.serve import telemetry

        telemetry.start()
    log = logging.getLogger("kgd.serve")
    process.prepare(os.path.join(home.logs, "crash.log"))
    gc.disable()  # imported objects stay; searching them for garbage would take a tenth of the startup time
    log.info("starting", extra={"version": __version__, "pid": os.getpid(), "home": home.config})
    try:
        profile = process.Profile(Path(options.profile)) if options.profile else None
        if profile:
            profile.start()
        asyncio.run(_serve(home, since, lock, make_parts, profile))
    except Exception:
        log.critical("the daemon failed", exc_info=True)
    return 1


async def _serve(home: Home, since: str, lock: HomeLock, make_parts: MakeParts | None, profile: Profile | None) -> None:
    """Listen, wait for a reason to stop, and close everything in reverse order."""
    import asyncio
    import gc
    import logging
    import signal

    from kgd import tracing
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
    gc.freeze()  # exclude imported objects from later collections
    gc.enable()
    parts.start()
    log.info("ready", extra={"socket": home.socket})
    watching = asyncio.create_task(endpoint.keep_place(lock))
    reason = await endpoint.asked_to_leave
    watching.cancel()
    if reason == "SIGTERM":
        await parts.drain()
    log.info("leaving", extra={"reason": reason, "connections": endpoint.connections})
    await endpoint.close(retire=reason == "retire")
    await parts.close()
    if profile:
        profile.stop()
    tracing.flush()
    log.info("stopped")
    logging.shutdown()
    # A waiting worker thread must not keep the process alive.
    os._exit(0)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m kgd.serve", description="The kgd daemon.")
    parser.add_argument("--detach", action="store_true", help="go to the background once the home's lock is held")
    parser.add_argument("--foreground", action="store_true", help="stay in the foreground (the default)")
    parser.add_argument("--debug", action="store_true", help="log debug messages")
    parser.add_argument("--profile", metavar="FILE", default="", help="write a profile as collapsed stacks at the end")
    parser.add_argument("--listen", metavar="HOST:PORT", help="be a hub: serve others over HTTP")
    parser.add_argument("--workspace", action="append", default=[], help="serve this workspace; may be repeated (all)")
    parser.add_argument("--tls-cert", default="", help="certificate chain")
    parser.add_argument("--tls-key", default="", help="its key")
    parser.add_argument("--behind-proxy", action="store_true", help="a proxy in front of it terminates TLS")
    parser.add_argument("--drain", type=float, default=0.0, help="seconds to continue serving after SIGTERM")
    parser.add_argument("--state", help="share tokens with other hubs: postgres://… or a reference to one")
    parser.add_argument("--oidc", metavar="FILE", default="", help="how people and programs sign in")
    parser.add_argument("--host-name", action="append", default=[], help="a host name that clients may use")
    parser.add_argument("--config", help=argparse.SUPPRESS)
    parser.add_argument("--logs", help=argparse.SUPPRESS)
    parser.add_argument("--home", nargs=3, metavar=("CONFIG", "STATE", "LOGS"), help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def _hub_parts(
    home: Home, options: argparse.Namespace, shared: SharedState | None, oidc: Configuration | None
) -> MakeParts:
    """The parts of a hub. Takes the port first, then ends a daemon in the background."""
    from kgd.hub.listen import Listen

    listen = Listen.parse(
        options.listen,
        workspaces=frozenset(options.workspace),
        cert=options.tls_cert,
        key=options.tls_key,
        behind_proxy=options.behind_proxy,
        names=tuple(name.lower() for name in options.host_name),
        drain=options.drain,
    )
    _refuse_unknown(home, options.workspace)
    listening = listen.open()
    _make_room(home)

    def make(home: Home, since: str) -> Served:
        from kgd.serve.parts import Parts

        return Parts(home, since, (listen, listening), shared, oidc)

    return make


def _shared_state(home: Home, options: argparse.Namespace) -> SharedState | None:
    """Connect to the shared state, by its URL or by a reference to one, which keeps a password out of process lists."""
    if (text := options.state) is None:
        return None
    if not options.listen:
        raise Invalid("only a hub shares its state", at="--state", next="Add --listen HOST:PORT.")
    import socket

    from kgd.config.credentials import secret
    from kgd.daemon.shared_state import SharedState

    url = secret(text, of_command=True) if text.startswith(("env:", "file:", "keyring:")) else text
    return SharedState(url, f"{socket.gethostname()}:{home.state}")


def _oidc(options: argparse.Namespace) -> Configuration | None:
    """The configuration of sign-in. Raises KgdError if it cannot be used."""
    if not (path := options.oidc):
        return None
    try:
        import kgd.oidc.provider  # noqa: F401  needs PyJWT, an optional extra
    except ImportError as error:
        raise Invalid(
            "sign-in needs PyJWT", at="--oidc", next="Run `uv tool install '.[oidc]'` in the clone of kgd."
        ) from error
    from kgd.codec.documents import read_mapping
    from kgd.config.credentials import secret
    from kgd.oidc import read_configuration

    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise Invalid(f"this file cannot be read: {error.strerror}", at=path) from error
    try:
        return read_configuration(read_mapping(data, path), secret)
    except KgdError as error:
        error.at = error.at if error.at.startswith(path) else f"{path}: {error.at}"
        raise


def _make_room(home: Home) -> None:
    """End a daemon that runs in the background, once its calls have ended.

    Raises:
        Unavailable: The running daemon is a hub.
    """
    from kgd.client.start import RETIRE_SECONDS, retire, running

    deadline = time.monotonic() + RETIRE_SECONDS
    while running(home) and time.monotonic() < deadline:
        if where := _listening(home):
            raise Unavailable(f"this home is already a hub, at {where}", next="`kgd down` stops it.")
        retire(home)
        time.sleep(0.02)


def _refuse_unknown(home: Home, ids: Sequence[str]) -> None:
    """Refuse workspace ids that are not registered here."""
    from kgd.config.registry import RegistryFile

    entries = RegistryFile(home).current().entries
    known = [id for id in sorted(entries) if not entries[id].hub]
    for id in ids:
        if id not in known:
            there = f"Known here: {', '.join(known[:8])}." if known else "Run `kgd up` in its folder."
            raise NotFound(f"there is no workspace '{id[:63]}' to serve", at="--workspace", next=there)


def _listening(home: Home) -> str:
    """The URL of this home's hub; empty if its daemon is not a hub or does not answer."""
    from kgd.client.connection import Connection

    try:
        with Connection(home, start=False) as connection:
            return str(connection.call("status", {})["daemon"].get("listening") or "")
    except (Unavailable, OSError):
        return ""


def _leave_terminal() -> None:
    """Detach from the terminal, the working directory and the standard streams."""
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)


if __name__ == "__main__":
    sys.exit(main())
