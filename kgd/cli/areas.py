"""`kgd areas`: lists the areas of the code, or shows one with its rules, facts, files and changelog."""

from __future__ import annotations

import os
from typing import Any

from kgd.cli import printing
from kgd.cli.output import show
from kgd.cli.terminal import (
    address,
    bold,
    counted,
    faint,
    field,
    heading,
    is_terminal,
    markdown,
    say,
    short,
    table,
    verbatim,
    when,
)
from kgd.client.connection import Connection
from kgd.config import Home
from kgd.errors import Forbidden, Invalid, NotFound

Given = dict[str, Any]
Answer = dict[str, Any]
ATOM, MOLECULE = "atom", "molecule"
LIMIT = 50
MOST_GROUPS = 1_000
"""The largest `limit` of `query_graph`. All groups are read, since each area names its own."""
LISTED = 20
"""Largest number of facts and of files shown for one area."""


def areas(given: Given, options: Given) -> int:
    """List the areas with their groups, or show one area or group."""
    where = {key: given[key] for key in ("workspace",) if key in given}
    with Connection(Home.find()) as connection:
        if "area" in given:
            answer = _one(connection, given["area"], where)
        else:
            limit = given.get("limit", LIMIT)
            found = {
                kind: connection.call(
                    "query_graph",
                    {**where, "operation": "search", "entityType": kind, "limit": most, "includeChangelog": False},
                )["data"]
                for kind, most in ((ATOM, limit), (MOLECULE, MOST_GROUPS))
            }
            answer = {
                "areas": found[ATOM]["atoms"],
                "total": found[ATOM]["total"],
                "groups": found[MOLECULE]["molecules"],
            }
    shown: Answer = answer.get("area") or next(iter(answer.get("areas", ())), {})
    answer["workspace"] = shown.get("projectId", "")
    show(f"areas.{'area' if 'area' in given else 'area_list'}", answer, options)
    return 0


def _one(connection: Connection, name: str, where: Given) -> Answer:
    kind, data = _found(connection, name, where)
    answer = {"area": data[kind], "members": data.get("atoms", [])}
    if kind == ATOM:
        uri = data[kind]["id"]
        (node,) = connection.call("get", {"uris": [uri], "include": []})["nodes"]
        if "unverified" in node:
            answer["unverified"] = node["unverified"]
        try:
            answer["facts"] = connection.call("area_facts", {"area": uri, "limit": LISTED})
            answer["coverage"] = connection.call("coverage", {"area": uri, "limit": LISTED})
        except (Invalid, Forbidden):  # no code tree on this machine, or no permission to read it
            pass
    return answer


def _found(connection: Connection, name: str, where: Given) -> tuple[str, Answer]:
    """The kind and the answer about an area, or about a group of areas."""
    is_file = os.path.lexists(name)
    advice = f"`kgd context {name}` shows the areas of a file." if is_file else "`kgd areas` lists them."
    for kind in (ATOM, MOLECULE):
        if ":" in name and not name.startswith(f"{kind}:"):
            continue
        try:
            return kind, _read(connection, kind, name, where)
        except Invalid:
            continue
        except NotFound as refusal:
            if refusal.at != "id":
                raise  # the workspace
            advice = refusal.next if refusal.next.startswith("Did") and not is_file else advice
    for kind, many in ((ATOM, "atoms"), (MOLECULE, "molecules")):
        asked = {**where, "operation": "search", "entityType": kind, "query": name, "includeChangelog": False}
        for one in connection.call("query_graph", asked)["data"][many]:
            if one["name"].casefold() == name.casefold():
                return kind, _read(connection, kind, one["id"], where)
    raise NotFound("there is no such area", at=name, next=advice)


def _read(connection: Connection, kind: str, id: str, where: Given) -> Answer:
    answer: Answer = connection.call("query_graph", {**where, "operation": "get", "entityType": kind, "id": id})["data"]
    return answer


def area_list(answer: Answer) -> None:
    groups = {one["id"]: one["name"] for one in answer["groups"]}
    rows = [
        (bold(one["name"]), address(one["id"]), groups.get(one["moleculeId"] or "", ""), ", ".join(one["paths"]))
        for one in answer["areas"]
    ]
    table(
        ("NAME", "AREA", "GROUP", "FILES"), rows, lambda name, *row: "  ".join(filter(None, (row[0], name, *row[1:])))
    )
    if len(rows) < answer["total"]:
        say(f"{len(rows)} of {answer['total']}; --limit N shows more")
    if not rows:
        say("no areas; this command creates one:")
        verbatim('  kgd put atom:NAME --data \'{"paths": ["src/NAME/**"]}\' --content RULES')
    elif is_terminal():
        say(faint("`kgd areas NAME` shows one; `kgd coverage` shows files without an area."))


def area(answer: Answer) -> None:
    one = answer["area"]
    say(f"{bold(one['name'])}  {address(one['id'])}")
    if one.get("moleculeId"):
        field("group", address(one["moleculeId"]))
    if one.get("paths"):
        field("files", ", ".join(one["paths"]))
    facts, found = answer.get("facts", {}), answer.get("coverage", {})
    if facts:
        field("coverage", f"{counted(facts['files'], 'files')}, {facts['known_files']} with facts")
        if facts["authors"]:
            field("known by", ", ".join(f"{by['name']} ({by['facts']})" for by in facts["authors"]))
    printing.doubts(answer, "  ")
    if one.get("knowledge"):
        heading("Rules")
        markdown("\n".join(f"  {line}".rstrip() for line in one["knowledge"].rstrip("\n").split("\n")))
    if answer["members"]:
        heading("Areas")
    for member in answer["members"]:
        say(f"  {bold(member['name'])}  {address(member['id'])}  {faint(', '.join(member['paths']))}", hang=4)
    if facts.get("facts"):
        stale = f", {facts['stale']} stale" if facts["stale"] else ""
        heading(f"Facts ({facts['total']}{stale})")
    for fact in facts.get("facts", ()):
        _fact(fact)
    if (total := facts.get("total", 0)) > LISTED:
        say(faint(f"  {LISTED} of {total} facts are shown"))
    if found.get("files"):
        heading(f"Files ({found['total']})")
    for file in found.get("files", ()):
        known = f"  {faint(counted(file['facts'], 'facts'))}" if file.get("facts") else ""
        say(f"  {file['path']}{known}")
    if (total := found.get("total", 0)) > LISTED:
        say(faint(f"  {LISTED} of {total} files are shown; `kgd coverage --area {short(one['id'])}` lists all"))
    if one.get("changelog"):
        heading("Changes")
    for change in one.get("changelog", ()):
        say(f"  {when(change['createdAt'], change['createdAt'][:10])}  {change['summary']}", hang=4)


def _fact(fact: Answer) -> None:
    if not is_terminal():
        say(f"  {fact.get('summary') or fact['name']}  {fact['uri']}")
    else:
        printing.entry(fact, ", ".join(fact["files"]), "  ")
    printing.doubts(fact, "    ")
