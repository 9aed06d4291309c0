"""The start page, and the settings of a workspace: remotes, tokens, browsers, and the workspaces of this machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kgd.errors import Invalid, KgdError, NotFound
from kgd.tools.hubs.tokens import describe
from kgd.ui.rendering import counted
from kgd.ui.visit import THEMES, Entry, Handled, Page, Redirect, Visit, address, own

GLANCES = 20
"""Largest number of workspaces whose work and last change the start page shows."""
PENDING = ("conflicts", "proposals", "stale")
"""The kinds of work by which the start page sorts its workspaces."""
TOKENS = 50
"""Largest number of tokens on one page."""
KINDS = {"here": "here", "clone": "a read-only copy", "hub": "on a hub"}
TRUST = {"local": "only you", "team": "your team", "remote": "another team"}
VERBS = (
    ("read", "read", "facts, history and search"),
    ("propose", "propose", "changes that wait until a person accepts them"),
    ("write", "write", "commits without review"),
    ("resolve", "resolve", "conflicts between versions"),
    ("admin", "admin", "the workspace's settings and policy, and sync with remotes"),
)
PRESETS = (
    ("read", "Read", "facts, history and search"),
    ("read propose", "Propose (for agents)", "read, and propose changes that wait until a person accepts them"),
    ("read write resolve", "Write and resolve", "read, commit without review, and choose between versions"),
    ("", "Custom", ""),
)
"""Usual permissions of a token: verbs, label and meaning. With the label "Custom", the user chooses each verb."""
PROGRAMS = ("Edg", "OPR", "Firefox", "HeadlessChrome", "Chrome", "Version")
SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iOS"),
    ("iPad", "iOS"),
    ("Windows", "Windows"),
    ("Mac OS", "macOS"),
    ("Linux", "Linux"),
)
ENDS = (("1d", "a day"), ("7d", "a week"), ("30d", "30 days"), ("90d", "90 days"), ("365d", "a year"))


def first(visit: Visit) -> Handled:
    """Open the only workspace, or list the workspaces."""
    hubs = visit.on_hubs()
    ids = [id for id in visit.workspaces() if id not in hubs]
    if len(ids) == 1 and not hubs:
        return Redirect(address(ids[0], "overview"))
    known = {one["id"]: one for one in visit.call("workspaces")["workspaces"]} if visit.record is None else {}
    opened = [id for id in ids if known.get(id, {"open": True})["open"]][:GLANCES]
    glances = {id: _glance(visit, id) for id in opened}
    ids.sort(key=lambda id: not any(glances.get(id, {}).get(kind) for kind in PENDING))
    told = {"known": known, "trust": TRUST, "glances": glances}
    return Page("first.html", told | {"ids": ids, "hubs": hubs})


def _glance(visit: Visit, id: str) -> dict[str, Any]:
    """Return the pending work and the last commit of an open workspace; empty if the visitor may not see them."""
    if not (status := visit.tried("status", workspace=id)):
        return {}
    commits = visit.tried("history", workspace=id, limit=1).get("commits", ())
    return {
        "stale": status["counts"].get("unverified", 0),
        "conflicts": status["conflicts"],
        "proposals": status["proposals"],
        "last": next(iter(commits), None),
    }


def workspaces(visit: Visit) -> Handled:
    """Show all workspaces to the user of this machine; show token holders only their own."""
    told: dict[str, Any] = {"can_sync": visit.can("sync"), "kinds": KINDS, "trust": TRUST}
    if visit.record is not None:
        own = describe(visit.record, visit.daemon.tokens.now())
        return Page("workspaces_held.html", told | {"holder": own, "ids": visit.workspaces()})
    known = visit.call("workspaces")
    here: dict[str, Any] = next((one for one in known["workspaces"] if one["id"] == visit.workspace), {})
    signed_in = visit.call("browsers")["browsers"]
    told |= _shared(visit, here) | _tokens(visit)
    told |= {
        "known": known,
        "here": here,
        "browsers": sorted(signed_in, key=lambda one: one["id"] != visit.browser),
        "listening": visit.daemon.listening,
        "called": called,
    }
    return Page("workspaces.html", told)


def _shared(visit: Visit, here: Mapping[str, Any]) -> dict[str, Any]:
    """Return the remotes of this workspace, or the problem with reading them."""
    if here.get("kind") != "here":
        return {"remotes": [], "problem": None}
    try:
        return {"remotes": visit.call("remote", action="list")["remotes"], "problem": None}
    except KgdError as error:
        return {"remotes": [], "problem": error}


def _tokens(visit: Visit) -> dict[str, Any]:
    try:
        found = visit.call("token_list")["tokens"]
    except KgdError as error:  # without the tokens, the page still shows everything else
        return {"tokens": [], "tokens_problem": error, "ended": 0, "skip": 0, "more": 0}
    found.sort(key=lambda one: (one["state"] != "live", one["created"]))
    live = [one for one in found if one["state"] == "live"]
    chosen = found if visit.query.get("tokens") == "all" else live
    skip = visit.number("skip")
    return {
        "tokens": chosen[skip : skip + TOKENS],
        "tokens_problem": None,
        "ended": len(found) - len(live),
        "skip": skip,
        "more": max(0, len(chosen) - skip - TOKENS),
    }


def sync(visit: Visit) -> Handled:
    """Sync the workspace with one or all remotes, and report the result."""
    name, confirm = visit.form.get("remote") or None, visit.form.get("confirm") or None
    done = visit.call("sync", remote=name, confirm=confirm)
    told = []
    for one in done["remotes"]:
        came, went = one.get("pulled", 0), one.get("pushed", 0)
        moved = f"fetched {counted(came, 'commit')}, pushed {went:,}" if came or went else "already in sync"
        waits = f"; blocked: {one['waits'][0]['reason']}" if one["waits"] else ""
        told.append(f"{one['name']}: {moved}{waits}.")
    return Redirect(visit.to("workspaces"), said=" ".join(told) or "There is no remote to sync with.")


def mint(visit: Visit) -> Handled:
    """Show the form of a new token, or the created token, which is shown only once."""
    _refuse_without(visit, "token_mint")
    told: dict[str, Any] = {"verbs": VERBS, "presets": PRESETS, "ends": ENDS, "error": None}
    told |= {"listening": visit.daemon.listening}
    if not visit.form:
        return Page(
            "workspaces_mint.html",
            told | {"given": {"kind": "agent", "preset": "read", "paths": "/**", "expires": "30d"}, "chosen": ["read"]},
        )
    chosen = visit.form.get("preset", "").split() or visit.many("verbs")
    paths = [line.strip() for line in visit.form.get("paths", "").splitlines() if line.strip()]
    try:
        made = visit.call(
            "token_mint",
            name=visit.text("name"),
            kind=visit.form.get("kind"),
            verbs=chosen,
            paths=paths or None,
            expires=visit.form.get("expires"),
        )
    except KgdError as error:
        return Page("workspaces_mint.html", told | {"given": visit.form, "chosen": chosen, "error": error}, 422)
    return Page("workspaces_minted.html", told | {"made": made, "name": visit.form.get("name", "")})


def revoke(visit: Visit) -> Handled:
    """Confirm and revoke a token."""
    _refuse_without(visit, "token_revoke")
    id = visit.required("id")
    if visit.form:
        gone = visit.call("token_revoke", id=id)["revoked"]
        said = "The token and all tokens derived from it are revoked." if gone else "The token was already revoked."
        return Redirect(visit.to("workspaces"), said=said)
    found = [one for one in visit.call("token_list")["tokens"] if id in (one["id"], one.get("parent"))]
    own = next((one for one in found if one["id"] == id), None)
    return Page("workspaces_revoke.html", {"id": id, "token": own, "children": len(found) - bool(own)})


def browsers(visit: Visit) -> Handled:
    """Sign out one browser, or all others than this one."""
    if chosen := visit.form.get("id"):
        ended = visit.call("browsers", action="end", id=chosen)["ended"]
    else:
        ended = 0
        for id in [one["id"] for one in visit.call("browsers")["browsers"] if one["id"] != visit.browser]:
            with suppress(NotFound):  # signed out meanwhile
                ended += visit.call("browsers", action="end", id=id)["ended"]
    return Redirect(visit.to("workspaces"), said=f"Signed out {counted(ended, 'browser')}.")


def hub(visit: Visit) -> Handled:
    """Show a link to a workspace on a hub; the user decides whether to follow it."""
    return Page("workspaces_hub.html", {"link": visit.call("ui", workspace=visit.required("id"))})


def _refuse_without(visit: Visit, tool: str) -> None:
    """Raise NotFound if the visitor may not call a tool."""
    if not visit.can(tool):
        raise NotFound("you have no access to this page", next="Manage tokens on the hub's own machine.")


def called(program: str) -> str:
    """Return a browser's name from its user agent: ``Firefox 140 on Linux``."""
    found = next((match for one in PROGRAMS if (match := re.search(rf"{one}/(\d+)", program))), None)
    if found is None:
        return program[:60] or "unknown browser"
    where = next((name for mark, name in SYSTEMS if mark in program), "")
    name = {"Edg": "Edge", "OPR": "Opera", "HeadlessChrome": "Chrome", "Version": "Safari"}.get(
        found[0].partition("/")[0]
    )
    return f"{name or found[0].partition('/')[0]} {found[1]}" + (f" on {where}" if where else "")


ENTRIES = (
    Entry("workspaces", "workspaces", workspaces),
    Entry("workspaces", "workspaces/sync", sync, ("POST",)),
    Entry("workspaces", "workspaces/tokens/mint", mint, ("GET", "POST")),
    Entry("workspaces", "workspaces/tokens/revoke", revoke, ("GET", "POST")),
    Entry("workspaces", "workspaces/browsers", browsers, ("POST",)),
    Entry("workspaces", "workspaces/hub", hub, ("POST",)),
)


def theme(visit: Visit) -> Handled:
    """Keep the chosen theme in this browser.

    Raises:
        Invalid: There is no such theme.
    """
    if (chosen := visit.required("theme")) not in ("system", *THEMES):
        raise Invalid("there is no such theme", at="theme", next=f"Known: system, {', '.join(THEMES)}.")
    return Redirect(own(visit.form.get("back", "")), theme=chosen)


PAGES = (Entry("first", "", first), Entry("first", "theme", theme, ("POST",)))
"""The start page and the theme switch, which belong to no workspace."""
