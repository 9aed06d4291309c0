"""Values from the environment, above all the paths of a user's kgd home.

No other package reads the environment. `kgd mcp` and every command import this file at startup, so it uses only parts
of the standard library that are fast to import: plain classes instead of dataclasses, ``str`` instead of ``Path``. The
registry and the settings are in `kgd.config.registry`, which is slower to import.

The version of the installed program is compared here too, since each command compares it with the daemon's.
"""

from __future__ import annotations

import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self


SOCKET_PATH_LIMIT = 100
"""Maximum bytes in the path of a unix socket; the limits of the kernels are 104 and 108, including the final zero
byte."""


class Home:
    """The folders of one user's kgd. Two homes do not share a daemon, registry, socket or log.

    Attributes:
        config: The folder of the registry.
        state: The folder of the lock, the socket and the daemon's files.
        logs: The folder of the daemon's log.
    """

    __slots__ = ("config", "logs", "state")

    def __init__(self, config: str, state: str, logs: str) -> None:
        self.config, self.state, self.logs = config, state, logs

    @classmethod
    def at(cls, root: str) -> Self:
        """A home in one folder, as for `KGD_HOME`."""
        root = os.path.abspath(root)
        return cls(root, os.path.join(root, "state"), os.path.join(root, "state", "logs"))

    @classmethod
    def find(cls, environ: Mapping[str, str] | None = None, platform: str = sys.platform) -> Self:
        """The home from the environment: `KGD_HOME`, otherwise the platform's usual folders."""
        env = os.environ if environ is None else environ
        if root := env.get("KGD_HOME"):
            return cls.at(root)
        user = env.get("HOME") or os.path.expanduser("~")
        if platform == "darwin":
            config = os.path.join(user, "Library", "Application Support", "kgd")
            return cls(config, os.path.join(config, "state"), os.path.join(user, "Library", "Logs", "kgd"))
        config = os.path.join(_xdg(env, "XDG_CONFIG_HOME", user, ".config"), "kgd")
        state = os.path.join(_xdg(env, "XDG_STATE_HOME", user, ".local/state"), "kgd")
        return cls(config, state, os.path.join(state, "logs"))

    @property
    def registry(self) -> str:
        return os.path.join(self.config, "workspaces.yaml")

    @property
    def lock(self) -> str:
        return os.path.join(self.state, "daemon.lock")

    @property
    def log(self) -> str:
        return os.path.join(self.logs, "daemon.log")

    @property
    def socket(self) -> str:
        """The daemon's socket: in `state`, or in a short folder below /tmp if that path is too long.

        The short folder depends only on the user and the home, not on the session's runtime folder, so that a client
        started by cron finds the daemon of a desktop session.
        """
        path = os.path.join(self.state, "kgd.sock")
        if len(os.fsencode(path)) <= SOCKET_PATH_LIMIT:
            return path
        import hashlib

        digest = hashlib.sha256(os.fsencode(self.state)).hexdigest()[:12]
        return f"/tmp/kgd-{os.getuid()}-{digest}/kgd.sock"

    def daemon_command(self) -> list[str]:
        """The command that starts a daemon. `-P` ignores a folder named kgd in the caller's directory."""
        return [sys.executable, "-P", "-m", "kgd.serve", "--home", self.config, self.state, self.logs]

    def prepare(self) -> None:
        """Create the folders, readable only by this user.

        Raises:
            Forbidden: A folder belongs to another user, or is a symbolic link in /tmp.
            Unavailable: A folder cannot be created, or the daemon cannot write into it.
        """
        for folder in (self.config, self.state, self.logs):
            _private_folder(folder, is_state=folder != self.config)
        _private_folder(os.path.dirname(self.socket))


def _xdg(env: Mapping[str, str], name: str, user: str, usual: str) -> str:
    """The folder from the environment, or the usual folder if the environment does not have an absolute path (which the
    XDG specification requires)."""
    given = env.get(name, "")
    return given if os.path.isabs(given) else os.path.join(user, usual)


def _private_folder(path: str, is_state: bool = True) -> None:
    """Create the folder. Without `is_state`, others may read it, and it may be read-only."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode) and os.path.dirname(path) == "/tmp":
            from kgd.errors import Forbidden

            raise Forbidden("this folder is a symbolic link, which another user could have created", at=path)
        found = os.stat(path)
        if found.st_uid != os.getuid():
            from kgd.errors import Forbidden

            raise Forbidden("this folder belongs to another user", at=path, next="Set KGD_HOME to your own folder.")
        if is_state and found.st_mode & 0o077:
            os.chmod(path, 0o700)
    except OSError as error:
        from kgd.errors import Unavailable

        raise Unavailable(
            f"this folder cannot be created: {error.strerror}", at=path, next="Set KGD_HOME to your own folder."
        ) from error
    if is_state and not os.access(path, os.W_OK | os.X_OK):
        from kgd.errors import Unavailable

        raise Unavailable(
            "the daemon cannot write into this folder", at=path, next="Make it writable, or set KGD_HOME to another."
        )


def one_thread_each() -> None:
    """Limit numeric libraries to one thread, in this process and its children, since their idle threads waste CPU
    time."""
    for name in ("OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ.setdefault(name, "1")


def log_level() -> str:
    """The level of the daemon's log from `KGD_LOG`, or empty. Raises Invalid for an unknown level."""
    level = os.environ.get("KGD_LOG", "").lower()
    if level not in ("", "debug", "info", "warning", "error"):
        from kgd.errors import Invalid

        raise Invalid(f"'{level[:20]}' is not a log level", at="KGD_LOG", next="Use debug, info, warning or error.")
    return level


def log_format() -> str:
    """The format of the daemon's log from `KGD_LOG_FORMAT`: text or json. Raises Invalid for any other value."""
    form = os.environ.get("KGD_LOG_FORMAT", "").lower() or "text"
    if form not in ("text", "json"):
        from kgd.errors import Invalid

        raise Invalid(f"'{form[:20]}' is not a log format", at="KGD_LOG_FORMAT", next="Use text or json.")
    return form


def wants_traces() -> bool:
    """Whether the standard variables of OpenTelemetry name a receiver of traces."""
    names = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return any(os.environ.get(name) for name in names) and os.environ.get("OTEL_SDK_DISABLED", "").lower() != "true"


def editor() -> str:
    """The command line of the user's editor."""
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"


def shell() -> str:
    """The name of the user's shell, such as ``bash``."""
    return os.path.basename(os.environ.get("SHELL", "bash"))


def color_choice() -> bool | None:
    """Whether the environment asks for or refuses coloured output; None if terminals get it and pipes do not.

    NO_COLOR (https://no-color.org) precedes CLICOLOR_FORCE and CLICOLOR (https://bixense.com/clicolors).
    """
    env = os.environ
    if env.get("NO_COLOR"):
        return False
    if env.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return False if is_dumb_terminal() or env.get("CLICOLOR") == "0" else None


def has_many_colors() -> bool:
    """Whether the terminal has 256 colours, as all have except a few old ones."""
    return not os.environ.get("TERM", "").startswith(("linux", "vt", "ansi", "cons"))


def is_dumb_terminal() -> bool:
    """Whether the terminal cannot move its cursor."""
    return os.environ.get("TERM") == "dumb"


def pager() -> tuple[str, dict[str, str]]:
    """The user's command for long output, empty for none, and the environment for it. `less` stops after one page."""
    command = next((os.environ[name] for name in ("KGD_PAGER", "PAGER") if name in os.environ), "less")
    is_off = is_dumb_terminal() or command.strip() in ("", "cat")
    return "" if is_off else command, {"LESS": "FRX", "LV": "-c", **os.environ}


def has_screen() -> bool:
    """Whether the user's session has a display for a browser."""
    env = os.environ
    if env.get("SSH_CONNECTION"):
        return False
    return sys.platform == "darwin" or bool(env.get("DISPLAY") or env.get("WAYLAND_DISPLAY") or env.get("BROWSER"))


def person_environment() -> dict[str, str]:
    """The part of the environment that git needs to act for the user: identity, agents, proxies, language."""
    prefixes = ("GIT_", "SSH_", "XDG_", "LC_")
    names = set(
        """
        HOME PATH USER LOGNAME LANG TMPDIR DISPLAY http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY
        ALL_PROXY all_proxy
        """.split()
    )
    return {name: value for name, value in os.environ.items() if name in names or name.startswith(prefixes)}


def host_folders() -> tuple[str, str, str, str]:
    """Four folders: the user's home; Claude Code's, empty if it is the usual one; Codex's; and the one with the
    settings of programs."""
    env = os.environ
    user = env.get("HOME") or os.path.expanduser("~")
    is_mac = sys.platform == "darwin"
    usual = os.path.join(user, "Library", "Application Support")
    settings = usual if is_mac else _xdg(env, "XDG_CONFIG_HOME", user, ".config")
    return user, env.get("CLAUDE_CONFIG_DIR", ""), env.get("CODEX_HOME") or os.path.join(user, ".codex"), settings


def git_own_file() -> str | None:
    """The path of the user's git configuration, or None for the default path. An empty path disables the
    configuration."""
    return os.environ.get("GIT_CONFIG_GLOBAL")


def pushing_as() -> str:
    """The pusher, as given by the server that started git: a principal as JSON (docs/git.md), or empty."""
    return os.environ.get("KGD_PRINCIPAL", "")


def git_variables() -> dict[str, str]:
    """The variables that git sets for its child programs: repository, index and objects."""
    return {name: value for name, value in os.environ.items() if name.startswith(("GIT_", "GITHEAD_"))}


def program_stamp() -> str:
    """The folder of the installed package and the identity of its first file, which every installation writes anew.

    Empty if the package is gone. An edit of an editable installation does not change it. Costs one `stat`.
    """
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        found = os.stat(os.path.join(folder, "__init__.py"))
    except OSError:
        return ""
    return f"{folder} {found.st_ino} {found.st_mtime_ns}".encode("utf-8", "replace").decode()


def is_program_replaced(then: str, now: str) -> bool:
    """Whether another installation has replaced the one with the stamp `then`. Installations in two folders never
    replace each other."""
    return then != now and bool(now) and then.rsplit(" ", 2)[0] == now.rsplit(" ", 2)[0]


def is_older_version(version: str, than: str) -> bool:
    """Whether a version is older than another; ``0.2.0.dev1``, ``0.2.0rc1`` and ``0.2.0`` are in ascending order."""
    return version != than and _order(version) < _order(than)


def _order(version: str) -> tuple[tuple[int, ...], int, int, int]:
    """The numbers of the release; phase and number of a pre-release or post-release; and the number of a dev release
    of that phase."""
    import re

    found = re.match(_VERSION, version.lower())
    release, phase, number, dev = found.groups() if found else ("0", "", "", None)
    numbers = tuple(map(int, re.sub(r"(\.0+)+$", "", release).split(".")))
    phase = phase or ("dev" if dev is not None else "")
    return numbers, _PHASES[phase], int(number or 0), 1 << 60 if dev is None else int(dev or 0)


_PHASES = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "c": -1, "rc": -1, "": 0, "post": 1}
_VERSION = r"(\d+(?:\.\d+)*)(?:[-_.]?(a|alpha|b|beta|c|rc|post)[-_.]?(\d*))?(?:[-_.]?dev[-_.]?(\d*))?"
