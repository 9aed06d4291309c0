"""This file is where the workspaces of a home are shown: with whom each is shared, and who may come in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kgd.errors import KgdError, NotFound
from kgd.tools.tokens import describe
from kgd.ui.asked import Asked, Go, Handled, Page
from kgd.ui.entry import Entry
from kgd.ui.rendering import counted

TOKENS = 50
"""Tokens on one page."""
KINDS = {"here": "here", "clone": "a copy to read", "hub": "on a hub"}
TRUST = {"local": "you alone", "team": "your team", "remote": "another team"}
VERBS = (
    ("read", "read"), ("propose", "propose changes, which wait for a person"), ("write", "write"),
    ("resolve", "settle conflicts"), ("admin", "sync with remotes"),
)  # fmt: skip
PROGRAMS = ("Edg", "OPR", "Firefox", "HeadlessChrome", "Chrome", "Version")
SYSTEMS = (
    ("Android", "Android"), ("iPhone", "iOS"), ("iPad", "iOS"), ("Windows", "Windows"), ("Mac OS", "macOS"),
    ("Linux", "Linux"),
)  # fmt: skip
ENDS = (("1d", "a day"), ("7d", "a week"), ("30d", "30 days"), ("90d", "90 days"), ("365d", "a year"))


def workspaces(asked: Asked) -> Handled:
    """Everything for the person of this machine; for the holder of a token who they are, and what is theirs."""
    told: dict[str, Any] = {"can_sync": asked.can("sync"), "kinds": KINDS, "trust": TRUST}
    if asked.record is not None:
        own = describe(asked.record, asked.daemon.tokens.now())
        return Page("workspaces_held.html", told | {"holder": own, "ids": asked.workspaces()})
    known = asked.call("workspaces")
    here: dict[str, Any] = next((one for one in known["workspaces"] if one["id"] == asked.workspace), {})
    told |= {"known": known, "here": here}
    told |= _shared(asked, here) | _tokens(asked) | {"browsers": asked.call("browsers")}
    told |= {"listening": asked.daemon.listening, "called": called}
    return Page("workspaces.html", told)


def _shared(asked: Asked, here: Mapping[str, Any]) -> dict[str, Any]:
    """The remotes of this workspace; why they cannot be told, where it is not written to from here."""
    if here.get("kind") != "here":
        return {"remotes": [], "problem": None}
    try:
        return {"remotes": asked.call("remote", action="list")["remotes"], "problem": None}
    except KgdError as error:
        return {"remotes": [], "problem": error}


def _tokens(asked: Asked) -> dict[str, Any]:
    try:
        found = asked.call("token_list")["tokens"]
    except KgdError as error:  # a state that cannot be read keeps nobody from the rest of the page
        return {"tokens": [], "tokens_problem": error, "ended": 0, "skip": 0, "more": 0}
    found.sort(key=lambda one: (one["state"] != "live", one["created"]))
    live = [one for one in found if one["state"] == "live"]
    chosen = found if asked.query.get("tokens") == "all" else live
    skip = _number(asked.query.get("skip", ""))
    return {
        "tokens": chosen[skip : skip + TOKENS], "tokens_problem": None, "ended": len(found) - len(live), "skip": skip,
        "more": max(0, len(chosen) - skip - TOKENS),
    }  # fmt: skip


def sync(asked: Asked) -> Handled:
    """Bring the workspace and its remotes together now; what came of it is said where it was asked for."""
    name, confirm = asked.form.get("remote") or None, asked.form.get("confirm") or None
    done = asked.call("sync", remote=name, confirm=confirm)
    told = []
    for one in done["remotes"]:
        came, went = one.get("pulled", 0), one.get("pushed", 0)
        moved = f"{counted(came, 'commit')} came, {went:,} went" if came or went else "there was nothing to bring over"
        waits = f"; it waits: {one['waits'][0]['reason']}" if one["waits"] else ""
        told.append(f"{one['name']}: {moved}{waits}.")
    return Go(asked.to("workspaces"), said=" ".join(told) or "There is no remote to sync with.")


def mint(asked: Asked) -> Handled:
    """A form, and the token that it makes: on the page that answers it, and nowhere else."""
    _refuse_without(asked, "token_mint")
    told: dict[str, Any] = {"verbs": VERBS, "ends": ENDS, "listening": asked.daemon.listening, "error": None}
    if not asked.form:
        return Page("workspaces_mint.html", told | {"given": {"kind": "agent", "paths": "/**", "expires": "30d"},
                                                    "chosen": ["read"]})  # fmt: skip
    chosen = asked.many("verbs")
    paths = [line.strip() for line in asked.form.get("paths", "").splitlines() if line.strip()]
    try:
        made = asked.call(
            "token_mint", name=asked.form.get("name", "").strip(), kind=asked.form.get("kind"), verbs=chosen,
            paths=paths or None, expires=asked.form.get("expires"),
        )  # fmt: skip
    except KgdError as error:
        return Page("workspaces_mint.html", told | {"given": asked.form, "chosen": chosen, "error": error}, 422)
    return Page("workspaces_minted.html", told | {"made": made, "name": asked.form.get("name", "")})


def revoke(asked: Asked) -> Handled:
    """Asks once more, since it cannot be taken back."""
    _refuse_without(asked, "token_revoke")
    id = asked.required("id")
    if asked.form:
        gone = asked.call("token_revoke", id=id)["revoked"]
        said = "This token and what was made from it is refused from now on." if gone else "It was refused already."
        return Go(asked.to("workspaces"), said=said)
    found = [one for one in asked.call("token_list")["tokens"] if id in (one["id"], one.get("parent"))]
    own = next((one for one in found if one["id"] == id), None)
    return Page("workspaces_revoke.html", {"id": id, "token": own, "children": len(found) - bool(own)})


def browsers(asked: Asked) -> Handled:
    """Let one browser in no longer, or all, this one too."""
    ended = asked.call("browsers", action="end", id=asked.form.get("id") or None)["ended"]
    what = "One browser is" if ended == 1 else f"{ended} browsers are"
    return Go(asked.to("workspaces"), said=f"{what} let in no longer.")


def hub(asked: Asked) -> Handled:
    """A link to the pages of the hub that a workspace is on. Following it is up to the person: it leads elsewhere."""
    return Page("workspaces_hub.html", {"link": asked.call("ui", workspace=asked.required("id"))})


def _refuse_without(asked: Asked, tool: str) -> None:
    """A form that its sender may not send is not shown."""
    if not asked.can(tool):
        raise NotFound("there is no such page for you", next="Tokens are kept on the hub's own machine.")


def called(program: str) -> str:
    """What people call the browser that says this of itself, which names others too: ``Firefox 140 on Linux``."""
    found = next((match for one in PROGRAMS if (match := re.search(rf"{one}/(\d+)", program))), None)
    if found is None:
        return program[:60] or "one that does not say what it is"
    where = next((name for mark, name in SYSTEMS if mark in program), "")
    name = {"Edg": "Edge", "OPR": "Opera", "HeadlessChrome": "Chrome", "Version": "Safari"}.get(
        found[0].partition("/")[0]
    )
    return f"{name or found[0].partition('/')[0]} {found[1]}" + (f" on {where}" if where else "")


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 8 else 0


ENTRIES = (
    Entry("workspaces", "workspaces", workspaces),
    Entry("workspaces", "workspaces/sync", sync, ("POST",)),
    Entry("workspaces", "workspaces/tokens/mint", mint, ("GET", "POST")),
    Entry("workspaces", "workspaces/tokens/revoke", revoke, ("GET", "POST")),
    Entry("workspaces", "workspaces/browsers", browsers, ("POST",)),
    Entry("workspaces", "workspaces/hub", hub, ("POST",)),
)
