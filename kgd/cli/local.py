"""Commands that make several calls to the daemon, or none, and the introduction at the start of a session."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from kgd.cli.commands import EXIT_CODES, INTERRUPTED, toolsets
from kgd.cli.output import show
from kgd.cli.progress import shown
from kgd.cli.terminal import clean
from kgd.client.connection import Connection
from kgd.client.start import UNINSTALLED, end, running
from kgd.config import Home, has_screen, shell
from kgd.errors import Invalid, KgdError, Limit, NotFound, Unavailable

Given = dict[str, Any]
DOWN_SECONDS = 30.0
REMOVE_PROGRAM = (
    "Remove the program with `uv tool uninstall kgd-daemon`, `pipx uninstall kgd-daemon` or "
    "`pip uninstall kgd-daemon`, or delete the virtual environment."
)


def mcp(given: Given, options: Given) -> int:
    from kgd.client import pump

    tools = given.get("tools", "")
    for name in tools.removeprefix("only:").split(",") if tools else ():
        if name.strip() not in toolsets():
            raise Invalid(f"there is no toolset '{name[:60]}'", at="--tools", next=f"Known: {', '.join(toolsets())}.")
    return pump.run(Home.find(), tools)


def serve(given: Given, options: Given) -> int:
    """Run the daemon in the foreground. A hub replaces a daemon that runs in the background."""
    from kgd.serve.__main__ import main

    ids = [id for id in given.pop("workspace", "").split(",") if id]
    words = ["--foreground"]
    for name, value in {**given, "workspace": ids}.items():
        flag = f"--{name.replace('_', '-')}"
        values = value if isinstance(value, list) else [value]
        words += [flag] if value is True else [word for one in values for word in (flag, one)]
    return main(words)


def ui(given: Given, options: Given) -> int:
    """Print a link to the pages, and open it if there is a screen."""
    stays = given.pop("print", False) or options.get("json") or options.get("quiet")
    lists, ends = given.pop("browsers", False), given.pop("end", False)
    with Connection(Home.find()) as connection, shown("ui", options):
        if lists or ends:
            answer = connection.call("browsers", {"action": "end" if ends else "list"})
        else:
            answer = connection.call("ui", given)
    if lists or ends:
        show("printing_running.browsers", answer, options)
        return 0
    if not stays and has_screen():
        import webbrowser

        answer["opened"] = webbrowser.open(answer["url"])
    show("printing_running.ui", answer, options)
    return 0


def down(given: Given, options: Given) -> int:
    """Stop the daemon; return when it has released its home."""
    home = Home.find()
    connection = Connection(home, start=False)
    try:
        pid = connection.call("down", {})["pid"]
    except (Limit, Unavailable):
        if not running(home):
            _say("no daemon was running", options)
            return 0
        if not (pid := end(home)):  # it serves no more clients
            raise
    finally:
        connection.close()
    deadline = time.monotonic() + DOWN_SECONDS
    with shown("down", options):
        while running(home):
            if time.monotonic() > deadline:
                raise Unavailable(f"the daemon (pid {pid}) is still finishing", next="Try again in a moment.")
            time.sleep(0.01)
    _say(f"the daemon (pid {pid}) has stopped", options)
    return 0


def install(given: Given, options: Given) -> int:
    from kgd.cli import plain_git

    show("printing_sharing.install", plain_git.install(given), options)
    return 0


def hook(given: Given, options: Given) -> int:
    from kgd.cli import plain_git

    return plain_git.hook([given["name"], *given.get("arguments", ())])


def merge_driver(given: Given, options: Given) -> int:
    from kgd.hooks import driver

    return driver.main(given["files"])


def uninstall(given: Given, options: Given) -> int:
    """Remove this workspace, or with --all every workspace, the daemon and the home. Knowledge is never deleted.

    In a clone with kgd's git settings and no workspace, only the settings are removed.
    """
    from kgd.cli import plain_git

    removed = None if given.get("all") or given.get("workspace") else plain_git.remove_here(given)
    if removed:
        show("printing_sharing.uninstall_hooks", removed, options)
        return 0
    home = Home.find()
    with Connection(home) as connection, shown("uninstall", options):
        answer = connection.call("uninstall", given)
    answer["installed"] = plain_git.remove_from(answer["kept"], dry_run=bool(given.get("dry_run")))
    show("printing_running.uninstall", answer, options)
    if given.get("all"):
        _remove_rest(home, options, dry_run=bool(given.get("dry_run")))
    return 0


def _remove_rest(home: Home, options: Given, *, dry_run: bool) -> None:
    """Remove the entries in clients' settings, stop all processes of the home, and delete the home."""
    from kgd.cli.agents import disconnect

    for file in disconnect(dry_run=dry_run):
        if not options.get("json"):
            _say(f"kgd {'would be' if dry_run else 'is'} removed from {file}.", options)
    has_tokens = os.path.exists(os.path.join(home.state, "hub.db"))
    tokens = ", with the tokens minted here and their audit log" if has_tokens else ""
    if not dry_run:
        with open(os.path.join(home.state, UNINSTALLED), "w"):
            pass
        down({}, {**options, "quiet": True})
        _remove_home(home)
    if options.get("json"):
        return
    if dry_run:
        _say(f"The home would also be removed: {home.state}{tokens}.", options)
    else:
        gone = f"The home is removed{tokens}."
        _say(f"{gone} {REMOVE_PROGRAM}", options)


def _remove_home(home: Home) -> None:
    for folder in dict.fromkeys((os.path.dirname(home.socket), home.logs, home.state)):
        shutil.rmtree(folder, ignore_errors=True)
    for name in (home.registry, home.registry + ".lock"):
        if os.path.exists(name):
            os.unlink(name)
    if os.path.isdir(home.config) and not os.listdir(home.config):
        os.rmdir(home.config)


def service(given: Given, options: Given) -> int:
    chosen = given.get("system") or ("launchd" if sys.platform == "darwin" else "systemd")
    sys.stdout.write(_unit(chosen, Home.find(), [sys.executable, "-P", "-m", "kgd.serve", "--foreground"]))
    return 0


def _unit(system: str, home: Home, program: list[str]) -> str:
    """The text of the unit. Its first line states where to put the file. Without the unit, the daemon is started on
    demand."""
    places = ["--home", home.config, home.state, home.logs]
    return _launchd(home, [*program, *places]) if system == "launchd" else _systemd([*program, *places])


def _systemd(command: list[str]) -> str:
    line = " ".join(_quoted(word) for word in command)
    return f"""\
# ~/.config/systemd/user/kgd.service; then: systemctl --user enable --now kgd
[Unit]
Description=kgd, the knowledge workspace daemon

[Service]
ExecStart={line}
Restart=on-failure
# 75: another daemon of this home is already running, which is fine.
SuccessExitStatus=75
TimeoutStopSec=30

[Install]
WantedBy=default.target
"""


def _launchd(home: Home, command: list[str]) -> str:
    from xml.sax.saxutils import escape

    words = "\n".join(f"    <string>{escape(word)}</string>" for word in command)
    return f"""\
<?xml version="1.0" encoding="UTF-8"?>
<!-- ~/Library/LaunchAgents/kgd.plist; then: launchctl load ~/Library/LaunchAgents/kgd.plist -->
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>kgd</string>
  <key>ProgramArguments</key>
  <array>
{words}
  </array>
  <key>RunAtLoad</key>
  <true/>
  <key>StandardErrorPath</key>
  <string>{escape(home.logs)}/launchd.log</string>
</dict>
</plist>
"""


def _quoted(word: str) -> str:
    """Quote by systemd's rules: ``%`` and ``$`` are doubled, and spaces need quotes."""
    safe = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{safe}"' if any(c in safe for c in " '\"\\") else safe


def completion(given: Given, options: Given) -> int:
    from kgd.cli import reference as scripts

    chosen = given.get("shell") or shell()
    if chosen not in scripts.SHELLS:
        raise Invalid(f"no completion for '{chosen}'", next=f"Name one of: {', '.join(scripts.SHELLS)}.")
    sys.stdout.write(scripts.script(chosen))
    return 0


def config(given: Given, options: Given) -> int:
    """Print paths and settings. If the registry file is broken, the settings that currently apply are shown."""
    from dataclasses import asdict

    from kgd.config.registry import RegistryFile

    home = Home.find()
    file = RegistryFile(home)
    registry = file.current()
    answer: Given = {
        "registry": home.registry,
        "state": home.state,
        "logs": home.logs,
        "socket": home.socket,
        "manual": _manual(),
        "settings": asdict(registry.settings) | {"embedder": str(registry.settings.embedder)},
        "workspaces": {one.id: one.path or one.hub or one.remote for one in registry.entries.values()},
    }
    show("printing_running.config", answer, options)
    if file.problem:
        raise file.problem
    return 0


def _manual() -> str:
    """The path of the man page: in an installed package, or in a working copy."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for place in (os.path.join(package, "ui/docs"), os.path.join(os.path.dirname(package), "docs")):
        if os.path.isfile(page := os.path.join(place, "kgd.1")):
            return page
    return ""


def _say(text: str, options: Given) -> None:
    if options.get("json"):
        sys.stdout.write(json.dumps({"message": text}) + "\n")
    elif not options.get("quiet"):
        sys.stdout.write(text + "\n")


LONGEST_TOKEN = 1_000


def join(given: Given, options: Given) -> int:
    from kgd.http_client import Address

    args: Given = {name: given[name] for name in ("url", "replace", "sign_in") if name in given}
    Address.parse(args["url"])  # refuse a bad address before asking for the token
    if not args.get("sign_in"):
        args["token"] = _token()

    def progress(done: int, total: int | None, message: str) -> None:
        if message:
            sys.stderr.write(f"{clean(message)}\n")
            sys.stderr.flush()

    with Connection(Home.find()) as connection:
        answer = connection.call("join", args, progress)
    show("printing_sharing.joined", answer, options)
    return 0


def _token() -> str:
    if sys.stdin is None or not sys.stdin.isatty():
        token = sys.stdin.readline(LONGEST_TOKEN + 1).strip() if sys.stdin else ""
    else:
        import getpass

        token = getpass.getpass("Token: ").strip()
    if not token or len(token) > LONGEST_TOKEN:
        raise Invalid(
            "no token was given",
            at="token",
            next="Pipe it in: `kgd join URL < FILE`, type it, or sign in with `kgd join URL --sign-in`.",
        )
    return token


WAIT_SECONDS = 30
"""Seconds that one call waits; further calls follow."""


def ingest(given: Given, options: Given) -> int:
    """Start an ingest and wait for its job. An interrupted wait leaves the job running."""
    source = given.get("source")
    if source == "-":
        given["text"] = sys.stdin.read()
        del given["source"]
    elif source and "://" not in source:
        given["source"] = os.path.abspath(os.path.expanduser(source))
    where = {"workspace": given["workspace"]} if "workspace" in given else {}
    try:
        with Connection(Home.find()) as connection, shown("ingest", options) as progress:
            answer = connection.call("ingest", given, progress)
            while answer.get("state") == "running":
                where = {"workspace": answer["workspace"]}
                job = connection.call("job", {**where, "id": answer["job"], "wait": WAIT_SECONDS}, progress)
                answer = {**answer, **job, "job": job["id"]}
                answer.pop("next", None)
    except KeyboardInterrupt:
        sys.stderr.write("\nkgd: the job continues in the daemon; `kgd status` shows its progress\n")
        return INTERRUPTED
    if answer.get("state") == "failed":
        raise Unavailable(
            answer.get("failure") or "the ingest failed", next="Run `kgd ingest` again; it continues where it stopped."
        )
    show("printing_running.ingested", answer, options)
    counts = answer["counts"]
    nothing = (
        counts.get("unread") and not answer.get("nodes") and not any(name.endswith("_unchanged") for name in counts)
    )
    return EXIT_CODES["VALIDATION_ERROR"][0] if nothing else 0


def prime(given: Given, options: Given) -> int:
    """Print the context for the start of a session. Never fails, because a failing start hook would stop the session.
    If there is no context, a person gets the reason in one line, and a hook gets nothing.
    """
    shape = given.pop("hook", None)
    try:
        with Connection(Home.find(), start=_is_workspace_here() or "workspace" in given) as connection:
            answer = connection.call("prime", given)
    except KgdError as refusal:
        if shape:
            return 0
        why = str(refusal) if "workspace" in given else _why_not(refusal)
        show("local.introduction", {"known": False, "reason": why}, options)
        return 0
    except Exception as defect:  # noqa: BLE001 the edge of a start hook
        sys.stderr.write(f"kgd: prime failed ({type(defect).__name__})\n")
        return 0
    if shape:
        sys.stdout.write(json.dumps(envelope(shape, rendered(clean(answer))), ensure_ascii=False) + "\n")
        return 0
    show("local.introduction", answer, options)
    return 0


def introduction(answer: Given) -> None:
    sys.stdout.write(rendered(answer) if "sections" in answer else f"kgd: {answer['reason']}\n")


def rendered(answer: Given) -> str:
    """The answer as Markdown."""
    parts = []
    for number, one in enumerate(answer["sections"]):
        more = [f"- and {one['more']} more"] if one.get("more") else []
        parts.append("\n".join([f"{'##' if number else '#'} {one['title']}", *one["lines"], *more]))
    return "\n\n".join(parts) + "\n"


def envelope(shape: str, text: str) -> Given:
    """The output of a start hook: Cursor's form, or the form shared by Claude Code, Codex and VS Code."""
    if shape == "cursor":
        return {"additional_context": text}
    return {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": text}}


def _is_workspace_here() -> bool:
    """Whether to start or call a daemon: a daemon is running, or this directory has a workspace."""
    if running(Home.find()):
        return True
    from kgd.git.layout import locate

    try:
        return locate(Path.cwd()) is not None
    except (KgdError, OSError):
        return False


def status_before_setup(given: Given) -> Given | None:
    """The status on a machine without a registry; None if the command names a workspace or is in one. Starts no daemon,
    which would create a removed home again."""
    if "workspace" in given or _is_workspace_here():
        return None
    return {
        "daemon": None,
        "health": "off",
        "stages": [],
        "degraded": [],
        "conflicts": 0,
        "invalid_files": [],
        "broken_links": [],
        "proposals": [],
        "jobs": [],
        "counts": {},
        "next": "Run `kgd up` in a code repository, or in the clone of a workspace.",
    }


def _why_not(refusal: KgdError) -> str:
    if isinstance(refusal, NotFound) or refusal.message.startswith("no kgd daemon"):
        return "this directory has no workspace; `kgd up` creates one in a code repository"
    return str(refusal)
