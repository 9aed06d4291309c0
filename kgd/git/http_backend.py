"""Git's own server program, `git http-backend`: command and environment for one request to one repository.

It reads no user configuration, runs only kgd's hooks, and hides every internal ref. It never moves a ref itself: all
updates go to the proc-receive hook.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kgd.git import program
from kgd.git.refs import NOTES

PACK_LIMIT = 128 << 20
"""Maximum size in bytes of a pack in transit."""
MEMORY_LIMIT = 2 << 30
FILE_LIMIT = 1 << 30
BIG_FILE = 1 << 20
"""Size in bytes from which git streams a blob, so that a decompression bomb costs no memory."""
PUSHED_PREFIXES = ("refs/heads", "refs/for")

_CONFIG: Sequence[tuple[str, str]] = (
    ("http.receivepack", "true"),
    ("http.uploadpack", "true"),
    ("http.getanyfile", "false"),
    ("http.uploadarchive", "false"),
    ("transfer.hideRefs", "refs"),
    *(("transfer.hideRefs", f"!{prefix}") for prefix in PUSHED_PREFIXES),
    ("uploadpack.hideRefs", f"!{NOTES}"),  # clients may fetch it, but never push it
    *(("receive.procReceiveRefs", prefix) for prefix in PUSHED_PREFIXES),
    ("receive.fsckObjects", "true"),
    ("receive.maxInputSize", str(PACK_LIMIT)),
    ("receive.unpackLimit", "1"),  # one pack per push, which is safe from a gc until the refs have moved
    ("receive.denyDeletes", "true"),
    ("receive.denyNonFastForwards", "true"),
    ("receive.autogc", "false"),
    ("receive.updateServerInfo", "false"),
    ("receive.advertiseAtomic", "false"),
    ("receive.advertisePushOptions", "false"),
    ("uploadpack.allowFilter", "true"),
    ("core.fsmonitor", "false"),
    ("core.fsync", "all"),
    ("core.bigFileThreshold", str(BIG_FILE)),
    ("core.alternateRefsCommand", "true"),
    ("pack.threads", "1"),
    ("pack.windowMemory", str(64 << 20)),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("protocol.version", "2"),
)


def command() -> list[str]:
    """The program to start, with limits of memory and file size that its children inherit.

    Raises:
        Unavailable: Git is not installed.
    """
    bounds = f"ulimit -v {MEMORY_LIMIT >> 10} 2>/dev/null; ulimit -f {FILE_LIMIT >> 9} 2>/dev/null"
    return ["/bin/sh", "-c", f'{bounds}; exec "$0" http-backend', program.path()]


def environment(git_dir: Path, hooks: Path, request: Mapping[str, str], hidden: Iterable[str] = ()) -> dict[str, str]:
    """The complete environment of the program: the repository and the request's CGI variables, and nothing else.

    Args:
        hooks: A folder with kgd's own hooks, used instead of the repository's.
        hidden: Additional refs that this client can neither see nor push to.
    """
    settings = [*_CONFIG, ("core.hooksPath", str(hooks)), *(("transfer.hideRefs", name) for name in hidden)]
    return {
        **program.hardened_environment(),
        **program.config_variables(settings),
        "GIT_PROJECT_ROOT": str(git_dir),
        "GIT_HTTP_EXPORT_ALL": "1",
        **request,
    }
