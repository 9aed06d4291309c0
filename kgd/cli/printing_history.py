"""Answers about commits, changes and conflicts as text."""

from __future__ import annotations

from typing import Any

from kgd.cli import printing, words
from kgd.cli.terminal import (
    address,
    alert,
    bold,
    commit,
    faint,
    good,
    is_terminal,
    red,
    say,
    short,
    table,
    verbatim,
    when,
    with_addresses,
)

Answer = dict[str, Any]


def history(answer: Answer) -> None:
    for number, entry in enumerate(answer["commits"]):
        if number:
            say()
        client = f" through {entry['client']}" if entry.get("client") else ""
        at = f"  {when(entry['at'])}" if entry["at"] else ""  # the first commit has no time
        say(f"{commit(entry['commit'])}{at}  {words.by(entry)}{client}", hang=4)
        for line in entry["message"].splitlines():
            say(f"    {with_addresses(line)}".rstrip())
        for uri in entry["nodes"]:
            if not is_terminal() or not (entry.get("diff") or uri in entry["message"]):
                say(f"    {address(uri)}")
        if entry.get("more_nodes"):
            say(f"    and {entry['more_nodes']} more")
        diffs(entry.get("diff", ()))
    _no_commits(answer)


def log(answer: Answer) -> None:
    rows = [
        (
            commit(one["commit"]),
            when(one["at"], one["at"][:16]),
            one["author"],
            with_addresses(one["message"].partition("\n")[0]),
        )
        for one in answer["commits"]
    ]
    narrow = "{}  {}  {}\n    {}" if is_terminal() else "{}  {:16}  {:<16.16}  {}"
    table(("COMMIT", "WHEN", "AUTHOR", "SUBJECT"), rows, narrow.format)
    _no_commits(answer)


def _no_commits(answer: Answer) -> None:
    if not answer["commits"]:
        say("no commits")
        if answer.get("next"):
            say(answer["next"])


def blame(answer: Answer) -> None:
    for one in answer["ranges"]:
        earlier = "  or earlier" if one.get("earlier") else ""
        say(f"{commit(one['commit'])}  {when(one['at'])}  {words.by(one)}{earlier}", hang=4)
        for number, text in enumerate(one["text"].split("\n"), one["first"]):
            say(f"{faint(f'{number:>6}')}  {text}", hang=8)
    if not answer["ranges"]:
        say("this node has no content; `kgd history` shows its changes")


def diffs(changes: Any, indent: str = "    ") -> None:
    for change in changes:
        reverted = f", reverted by {commit(change['reverted'])}" if change.get("reverted") else ""
        reverted += ", approved" if change.get("approved") else ""
        say(f"{indent}{change['change']} {address(change['uri'])}{reverted}")
        for name, field in _telling(change["fields"]).items():
            for sign, side, painted in (("-", "before", red), ("+", "after", good)):
                if field.get(side) not in (None, "", [], {}):
                    say(painted(f"{indent}  {sign} {_changed(name, field[side])}"), hang=len(indent) + 4)


def _telling(fields: Answer) -> Answer:
    """The changed fields. A terminal leaves out hashes of code, and a name that changed as the summary did."""
    if not is_terminal():
        return fields
    left_out = {"data/verified", "name" if fields.get("name") == fields.get("summary") else ""}
    return {name: field for name, field in fields.items() if name not in left_out}


def _changed(field: str, value: Any) -> str:
    """A field with its value. A relation has the form of `get`."""
    kind, _, rest = field.partition("/")
    if kind != "relations" or not rest or not isinstance(value, dict):
        if not is_terminal():
            return f"{field.replace('~1', '/').replace('~0', '~')}: {words.text(value)}"
        return f"{field.removeprefix('data/')}: {with_addresses(words.listed(value))}"
    type, _, target = rest.partition("/")
    others = {key: one for key, one in value.items() if key != "weight"}
    said = (
        f"-> {type} {address(target.replace('~1', '/').replace('~0', '~'))}{printing.weighed(value.get('weight', 1))}"
    )
    return f"{said} {words.text(others)}" if others else said


def diff(answer: Answer) -> None:
    diffs(answer["diff"], indent="")
    if not answer["diff"]:
        say("no difference")


def review(answer: Answer) -> None:
    """Print the new knowledge, or only the revert that was made of it."""
    if reverted := answer.get("reverted"):
        printing.put(reverted)
    else:
        _new_knowledge(answer)
    dry = answer.get("dry_run")
    if answer.get("accepted"):
        say(f"{'would be ' if dry else ''}reviewed up to {commit(answer['accepted'])}")
    for uri in answer.get("approved", ()):
        say(f"{'would approve' if dry else 'approved'} {address(uri)}")
    if not reverted and answer.get("next"):
        say(answer["next"])


def _new_knowledge(answer: Answer) -> None:
    for by in answer["authors"]:
        continued = " (continued)" if by.get("continued") else ""
        say(f"{bold(by['group'])}, {words.counted(by['commits'], 'commits')}{continued}")
        diffs(by["nodes"])
        if is_terminal():
            say()
    if not answer["authors"]:
        say("no new knowledge")
    if answer.get("more"):
        say(f"and {words.counted(answer['more'], 'nodes')} more: narrow it by --path, --author or --since")
    if answer.get("cut"):
        say(alert(f"  ! {answer['cut']}: narrow it by --since"))


def conflicts(answer: Answer) -> None:
    if "suggestions" in answer:
        _suggestions(answer["suggestions"])
    found = [one["uri"] for one in answer["conflicts"]]
    for one in answer["conflicts"]:
        is_named = is_terminal() and found.count(one["uri"]) == 1
        say(address(one["uri"]) if is_named else f"{address(one['uri'])}  {faint(one['id'])}")
        for name, field in one["fields"].items():
            (_sides if is_terminal() else _plain_sides)(name, field)
    if not answer["conflicts"]:
        say("no open conflicts")
    elif is_terminal():
        first = answer["conflicts"][0]
        say("Choose a side, or write a value with --fields:")
        verbatim(f"  kgd resolve {short(found[0]) if found.count(found[0]) == 1 else first['id']} --take a")
    else:
        say("Resolve one with `kgd resolve ID --take a`, or with --fields.")


def _plain_sides(name: str, field: Answer) -> None:
    say(f"    {name}, base: {words.text(field.get('base'))}")
    for side in field["sides"]:
        by = f"  {side['author']}, {words.short(side['commit'])} {side['at'][:16]}" if "author" in side else ""
        shown = "  (shown)" if side["side"] == field["shown"] else ""
        say(f"    {name}, {side['side']}:    {words.text(side['value'])}{shown}{by}")


def _sides(name: str, field: Answer) -> None:
    """Print the sides of a field below each other, each with its author in a line of its own."""
    say(f"  {bold(name)}")
    say(f"    base  {words.text(field.get('base'))}", hang=10)
    for side in field["sides"]:
        say(f"    {bold(side['side'])}{' ' * (6 - len(side['side']))}{words.text(side['value'])}", hang=10)
        shown = ["shown now"] if side["side"] == field["shown"] else []
        by = (
            [side["author"], when(side["at"], side["at"][:16]), words.short(side["commit"])] if "author" in side else []
        )
        say(f"          {faint(', '.join([*by, *shown]))}", hang=10)


def _suggestions(found: list[Answer]) -> None:
    for one in found:
        say(f"{bold(one['id'])}  {_suggested(one)}")
        say(f"    {one['reason']}")
    if found:
        say("Accept one with `kgd resolve ID --take accept`, or dismiss it with `--take reject`.")
    else:
        say("no suggestions")


def _suggested(one: Answer) -> str:
    if one["kind"] == "entity":
        return f"make {one['source']}: '{one['name']}'"
    if one["kind"] == "merge":
        return f"merge {one['source']} and {one['target']}"
    now = f" @{one['now']:g}" if "now" in one else ""
    return f"{one['source']} {one['type']} {one['target']}{now} -> @{one['weight']:g}"


def author(answer: Answer) -> None:
    what = "agent" if answer["agent"] else "person"
    by = f" through {', '.join(answer['clients'])}" if answer["clients"] else ""
    say(f"{bold(answer['name'])}  {what}{by}", hang=4)
    for one in answer["nodes"]:
        if is_terminal():
            printing.entry(one, when(one["at"]), "  ")
            continue
        say(f"  {address(one['uri'])}  {one['at'][:10]}")
        if one.get("summary"):
            say(f"    {one['summary']}")
    if answer["areas"]:
        say("knows " + ", ".join(f"{one['name']} ({one['facts']})" for one in answer["areas"]))
    if answer["namespaces"]:
        say("writes in " + ", ".join(f"{one['namespace']} ({one['nodes']})" for one in answer["namespaces"]))
    for one in answer["proposals"]:
        say(f"proposes {one['id']}: {one['message']}")
    for one in answer["stale"]:
        say(f"stale {address(one['uri'])}: {one['unverified']['reason']}", hang=4)
    if answer.get("cut"):
        say(alert(f"  ! {answer['cut']}"))
