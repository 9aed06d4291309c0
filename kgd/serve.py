"""This file is where the daemon's parts are put together; `python -m kgd.serve` is the daemon process.

The lock is taken before anything large is imported, so that one of many daemons that are started at once survives and
the others are gone within a second, naming it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from kgd import __version__
from kgd.client.start import HELD
from kgd.config import Home
from kgd.daemon.lock import HomeLock
from kgd.errors import KgdError, Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SWITCH_SECONDS = 0.0005
"""How long a thread may keep the interpreter while another waits; the usual 5 ms show in every read beside a writer."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the daemon of one home until it is told to stop. With ``--detach`` its pid is printed and this returns."""
    options = _options(argv)
    home = Home(options.config, options.state, options.logs) if options.config else Home.find()
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    lock = HomeLock(home.lock)
    try:
        home.prepare()
        lock.acquire(__version__, since)
    except KgdError as error:
        print(f"kgd: {error}", file=sys.stderr)
        return HELD if isinstance(error, Unavailable) else 1
    if options.detach:
        if child := os.fork():
            print(child)
            return 0
        lock.note(__version__, since)
        _leave_terminal()
    try:
        return _run(home, since, to_stderr=not options.detach)
    finally:
        lock.release()


def _run(home: Home, since: str, *, to_stderr: bool) -> int:
    """The daemon from its first log line to its last. What is large is imported here, after the lock is held."""
    import asyncio
    import faulthandler
    import logging

    from kgd.daemon import logs

    logs.start(home.log, to_stderr=to_stderr)
    log = logging.getLogger("kgd.serve")
    crash = open(os.path.join(home.logs, "crash.log"), "ab")  # noqa: SIM115 - must stay open for a crash to land in
    faulthandler.enable(crash)
    sys.setswitchinterval(SWITCH_SECONDS)
    log.info("starting", extra={"version": __version__, "pid": os.getpid(), "home": home.config})
    try:
        asyncio.run(_serve(home, since))
    except Exception:
        log.critical("the daemon failed", exc_info=True)
        return 1
    log.info("stopped")
    logging.shutdown()
    # A worker thread that still waits for something must not keep a daemon that has said good-bye.
    os._exit(0)


async def _serve(home: Home, since: str) -> None:
    """Open everything, listen, wait for a reason to stop, close everything in the opposite order."""
    import asyncio
    import logging
    import signal

    from kgd.daemon.daemon import Daemon
    from kgd.daemon.endpoint import Endpoint

    loop = asyncio.get_running_loop()
    daemon = Daemon(home, since=since)
    surface = _surface(daemon)
    endpoint = Endpoint(home.socket, __version__, _dispatcher(daemon, surface), _mcp_server(surface))

    def leave(why: str) -> None:
        if not endpoint.asked_to_leave.done():
            endpoint.asked_to_leave.set_result(why)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave, signal.Signals(number).name)
    await endpoint.start()
    log = logging.getLogger("kgd.serve")
    log.info("ready", extra={"socket": home.socket})
    reason = await endpoint.asked_to_leave
    log.info("leaving", extra={"reason": reason, "connections": endpoint.connections})
    if surface:
        surface.close()
    await endpoint.close(retire=reason == "retire")
    await loop.run_in_executor(None, daemon.close)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m kgd.serve", description="The kgd daemon.")
    parser.add_argument("--detach", action="store_true", help="go to the background once the home's lock is held")
    parser.add_argument("--foreground", action="store_true", help="stay in the foreground (the default)")
    for place in ("config", "state", "logs"):
        parser.add_argument(f"--{place}", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def _leave_terminal() -> None:
    """No terminal, no directory and none of the starter's streams are kept."""
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)


if __name__ == "__main__":
    sys.exit(main())
