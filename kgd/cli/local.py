"""This file is where the commands are that do their work themselves instead of asking the daemon for it."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import Any

from kgd.cli.output import show
from kgd.cli.waiting import told
from kgd.client.connection import Connection
from kgd.config import Home, has_screen, shell
from kgd.errors import Invalid, Unavailable

Given = dict[str, Any]
DOWN_SECONDS = 30.0
TOOLSETS = ("tasks", "server-memory", "apps")
"""As `kgd.tools` has them, which would cost this program its start."""


def mcp(given: Given, options: Given) -> int:
    from kgd.client import pump

    tools = given.get("tools", "")
    for name in tools.removeprefix("only:").split(",") if tools else ():
        if name.strip() not in TOOLSETS:
            raise Invalid(f"there is no toolset '{name[:60]}'", at="--tools", next=f"Known: {', '.join(TOOLSETS)}.")
    return pump.run(Home.find(), tools)


def serve(given: Given, options: Given) -> int:
    """The daemon here, in the foreground. As a hub it takes the place of a daemon that runs in the background."""
    from kgd.serve.__main__ import main

    words = ["--foreground", *["--debug"] * bool(given.get("debug"))]
    for name in ("profile", "listen", "tls_cert", "tls_key"):
        if name in given:
            words += [f"--{name.replace('_', '-')}", str(given[name])]
    if "listen" in given:
        words += [word for id in given.get("workspace", "").split(",") if id for word in ("--workspace", id)]
        words += [word for name in given.get("host_name", ()) for word in ("--host-name", name)]
        words += ["--behind-proxy"] * bool(given.get("behind_proxy"))
    return main(words)


def token(given: Given, options: Given) -> int:
    from kgd.cli import tokens

    return tokens.token(given, options)


def task(given: Given, options: Given) -> int:
    from kgd.cli import tasks

    return tasks.task(given, options)


def ingest(given: Given, options: Given) -> int:
    from kgd.cli import ingesting

    return ingesting.ingest(given, options)


def join(given: Given, options: Given) -> int:
    from kgd.cli import joining

    return joining.join(given, options)


def prime(given: Given, options: Given) -> int:
    from kgd.cli import agents

    return agents.prime(given, options)


def agents(given: Given, options: Given) -> int:
    from kgd.cli import agents

    return agents.agents(given, options)


def ui(given: Given, options: Given) -> int:
    """Open the pages in the person's browser, where there is one; the link is printed all the same."""
    stays = given.pop("print", False) or options.get("json") or options.get("quiet")
    lists, ends = given.pop("browsers", False), given.pop("end", False)
    with Connection(Home.find()) as connection, told("ui", options):
        if lists or ends:
            answer = connection.call("browsers", {"action": "end" if ends else "list"})
        else:
            answer = connection.call("ui", given)
    if lists or ends:
        show("browsers", answer, options)
        return 0
    if not stays and has_screen():
        import webbrowser

        answer["opened"] = webbrowser.open(answer["url"])
    show("ui", answer, options)
    return 0


def down(given: Given, options: Given) -> int:
    """Returns when the daemon has let go of its home, so that whatever comes next finds nobody."""
    from kgd.client.start import running

    home = Home.find()
    connection = Connection(home, start=False)
    try:
        pid = connection.call("down", {})["pid"]
    except Unavailable:
        _say("no daemon was running", options)
        return 0
    finally:
        connection.close()
    deadline = time.monotonic() + DOWN_SECONDS
    with told("down", options):
        while running(home):
            if time.monotonic() > deadline:
                raise Unavailable(f"the daemon (pid {pid}) is still finishing", next="Look again in a moment.")
            time.sleep(0.01)
    _say(f"the daemon (pid {pid}) has stopped", options)
    return 0


def install(given: Given, options: Given) -> int:
    from kgd.cli import plain_git

    show("install", plain_git.install(given), options)
    return 0


def hook(given: Given, options: Given) -> int:
    from kgd.cli import plain_git

    return plain_git.hook([given["name"], *given.get("arguments", ())])


def merge_driver(given: Given, options: Given) -> int:
    from kgd.hooks import driver

    return driver.main(given["files"])


def uninstall(given: Given, options: Given) -> int:
    """The workspace here, or with --all every one, then the daemon, then the home. Knowledge is never deleted.

    What `kgd install` put into a clone goes first; a clone that is no workspace of this home is done with that.
    """
    from kgd.cli import plain_git

    removed = None if given.get("all") or given.get("workspace") else plain_git.remove_here(given)
    if removed:
        show("uninstall_hooks", removed, options)
        return 0
    home = Home.find()
    with Connection(home) as connection, told("uninstall", options):
        answer = connection.call("uninstall", given)
    answer["installed"] = plain_git.remove_from(answer["kept"], dry_run=bool(given.get("dry_run")))
    show("uninstall", answer, options)
    if given.get("all"):
        _remove_rest(home, options, dry_run=bool(given.get("dry_run")))
    return 0


def _remove_rest(home: Home, options: Given, *, dry_run: bool) -> None:
    """End every process of the home, then remove clients' entries and the home."""
    from kgd.cli.agents import disconnect
    from kgd.client.start import UNINSTALLED

    for file in disconnect(dry_run=dry_run):
        if not options.get("json"):
            _say(f"kgd {'would be' if dry_run else 'is'} taken out of {file}.", options)
    has_tokens = os.path.exists(os.path.join(home.state, "hub.db"))
    tokens = ", with the tokens that were minted here and the record of what they did" if has_tokens else ""
    if not dry_run:
        with open(os.path.join(home.state, UNINSTALLED), "w"):
            pass
        down({}, {**options, "quiet": True})
        _remove_home(home)
    if options.get("json"):
        return
    if dry_run:
        _say(f"The home would go, too: {home.state}{tokens}.", options)
    else:
        gone = f"The home is gone{tokens}."
        _say(f"{gone} The program goes with `uv tool uninstall kgd-daemon` or `pipx uninstall kgd-daemon`.", options)


def _remove_home(home: Home) -> None:
    for folder in dict.fromkeys((os.path.dirname(home.socket), home.logs, home.state)):
        shutil.rmtree(folder, ignore_errors=True)
    for name in (home.registry, home.registry + ".lock"):
        if os.path.exists(name):
            os.unlink(name)
    if os.path.isdir(home.config) and not os.listdir(home.config):
        os.rmdir(home.config)


def service(given: Given, options: Given) -> int:
    from kgd.cli import units

    chosen = given.get("system") or ("launchd" if sys.platform == "darwin" else "systemd")
    sys.stdout.write(units.unit(chosen, Home.find(), _program()))
    return 0


def completion(given: Given, options: Given) -> int:
    from kgd.cli import completion as scripts

    chosen = given.get("shell") or shell()
    if chosen not in scripts.SHELLS:
        raise Invalid(f"no completion for '{chosen}'", next=f"Name one of: {', '.join(scripts.SHELLS)}.")
    sys.stdout.write(scripts.script(chosen))
    return 0


def config(given: Given, options: Given) -> int:
    """Where everything is; the settings are those that hold now, not what a broken file says."""
    from dataclasses import asdict

    from kgd.config.registry import RegistryFile

    home = Home.find()
    file = RegistryFile(home)
    registry = file.current()
    answer: Given = {
        "registry": home.registry, "state": home.state, "logs": home.logs, "socket": home.socket,
        "manual": _manual(), "settings": asdict(registry.settings) | {"embedder": str(registry.settings.embedder)},
        "workspaces": {one.id: one.path or one.hub or one.remote for one in registry.entries.values()},
    }  # fmt: skip
    show("config", answer, options)
    if file.problem:
        raise file.problem
    return 0


def _manual() -> str:
    """The page of `man kgd`: inside of an installed package, or beside a package that is worked on."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for place in (os.path.join(package, "ui/docs"), os.path.join(os.path.dirname(package), "docs")):
        if os.path.isfile(page := os.path.join(place, "kgd.1")):
            return page
    return ""


def edit(given: Given, options: Given) -> int:
    from kgd.cli import editing

    return editing.edit(given, options)


def _say(text: str, options: Given) -> None:
    if options.get("json"):
        import json

        sys.stdout.write(json.dumps({"message": text}) + "\n")
    elif not options.get("quiet"):
        sys.stdout.write(text + "\n")


def _program() -> list[str]:
    """How this very kgd is started by a service manager that knows no PATH."""
    return [sys.executable, "-P", "-m", "kgd.serve", "--foreground"]
