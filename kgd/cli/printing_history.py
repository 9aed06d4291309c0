"""Answers about commits, changes and conflicts as text."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import Any
from urllib.parse import unquote

from kgd.cli import printing, terminal
from kgd.cli.terminal import (
    address,
    alert,
    as_text,
    bold,
    commit,
    counted,
    faint,
    gap,
    good,
    is_detailed,
    is_terminal,
    listed,
    red,
    say,
    say_field,
    short,
    short_id,
    shortened,
    signed,
    table,
    verbatim,
    when,
    with_addresses,
)

Answer = dict[str, Any]
_FIRST = ("name", "summary", "content")
"""Fields that a terminal shows before the others."""
_WORDS = re.compile(r"\w+").findall
_PUT = re.compile(r"\bput \S+://\S+: (?=\S)")
_AUTHOR = 16
"""Columns of an author's name in a log."""


def history(answer: Answer) -> None:
    for number, entry in enumerate(answer["commits"]):
        if number:
            say()
        at = f"  {when(entry['at'])}" if entry["at"] else ""  # the first commit has no time
        say(f"{commit(entry['commit'])}{at}  {signed(entry)}", hang=4)
        for line in entry["message"].splitlines():
            say(f"    {with_addresses(line)}".rstrip())
        for uri in entry["nodes"]:
            if not is_terminal() or not (entry.get("diff") or uri in entry["message"]):
                say(f"    {address(uri)}")
        say_field(entry, "more_nodes", "    and {} more")
        diffs(entry.get("diff", ()))
    _end(answer)


def log(answer: Answer) -> None:
    """Print the commits. A terminal gets one line for each, unless the user asked for whole subjects."""
    is_short = is_terminal() and not is_detailed()
    rows = [
        (
            commit(one["commit"]),
            when(one["at"], one["at"][:16]),
            shortened(one["author"], _AUTHOR) if is_short else one["author"],
            _subject(one["message"], is_short=is_short),
        )
        for one in answer["commits"]
    ]
    narrow = "{}  {}  {}\n    {}" if is_terminal() else "{}  {:16}  {:<16}  {}"
    table(("COMMIT", "WHEN", "AUTHOR", "SUBJECT"), rows, narrow.format, cuts=is_short)
    _end(answer)


def _subject(message: str, *, is_short: bool) -> str:
    """The first line; if it is to be short, without the address of a node whose summary follows."""
    subject = message.partition("\n")[0]
    return with_addresses(_PUT.sub("", subject), short) if is_short else with_addresses(subject)


def _end(answer: Answer) -> None:
    if not answer["commits"]:
        say("no commits")
    say_field(answer, "next")


def blame(answer: Answer) -> None:
    for one in answer["ranges"]:
        earlier = "  or earlier" if one.get("earlier") else ""
        say(f"{commit(one['commit'])}  {when(one['at'])}  {signed(one)}{earlier}", hang=4)
        for number, text in enumerate(one["text"].split("\n"), one["first"]):
            say(f"{faint(f'{number:>6}')}  {text}".rstrip(), hang=8)
    if not answer["ranges"]:
        say("this node has no content; `kgd history` shows its changes")


def diffs(changes: Any, indent: str = "    ") -> None:
    for change in changes:
        reverted = f", reverted by {commit(change['reverted'])}" if change.get("reverted") else ""
        reverted += ", approved" if change.get("approved") else ""
        say(f"{indent}{change['change']} {address(change['uri'])}{reverted}")
        say_field(change, "reason", alert(f"{indent}  ! {{}}"), hang=len(indent) + 4)
        for name, field in _telling(change).items():
            for sign, side, painted in (("-", "before", red), ("+", "after", good)):
                if field.get(side) not in (None, "", [], {}):
                    first, *others = _changed(name, field[side]).split("\n")
                    say(painted(f"{indent}  {sign} {first}"), hang=len(indent) + 4)
                    for line in others:
                        say(painted(f"{indent}    {line}"), hang=len(indent) + 4)


def _telling(change: Answer) -> Answer:
    """The changed fields. A terminal shows what the node says first.

    It leaves out hashes of code, a name that the address or the summary repeats, and the summary in a new content.
    """
    fields: Answer = change["fields"]
    if not is_terminal():
        return fields
    title, summary = (fields.get(name, {}).get("after") for name in ("name", "summary"))
    repeats = fields.get("name") == fields.get("summary") or _in_words(title) == _in_words(
        change["uri"].rpartition("/")[2]
    )
    left_out = {"data/verified", "name" if repeats else ""}
    told = {name: field for name, field in fields.items() if name not in left_out}
    content = told.get("content", {})
    if summary and isinstance(content.get("after"), str):
        lines = [line for line in content["after"].splitlines() if line.rstrip(".") != summary.rstrip(".")]
        told["content"] = {**content, "after": "\n".join(lines).strip()}
    told = {name: _changed_lines(field) for name, field in told.items()}
    return dict(sorted(told.items(), key=lambda one: _FIRST.index(one[0]) if one[0] in _FIRST else len(_FIRST)))


def _changed_lines(field: Answer) -> Answer:
    """Both sides of a field; of two texts, only the lines that differ."""
    before, after = field.get("before"), field.get("after")
    if not isinstance(before, str) or not isinstance(after, str) or "\n" not in f"{before.strip()}{after.strip()}":
        return field
    old, new = ([line for line in text.splitlines() if line.strip()] for text in (before, after))
    left, added = list[str](), list[str]()
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            left += old[a:b]
            added += new[c:d]
    return {**field, "before": "\n".join(left), "after": "\n".join(added)} if left or added else field


def _in_words(text: Any) -> str:
    """A name or the last part of an address, without case and punctuation."""
    return " ".join(_WORDS(unquote(str(text or "")).casefold()))


def _changed(field: str, value: Any) -> str:
    """A field with its value. A relation has the form of `get`."""
    kind, _, rest = field.partition("/")
    if kind != "relations" or not rest or not isinstance(value, dict):
        if not is_terminal():
            return f"{field.replace('~1', '/').replace('~0', '~')}: {as_text(value)}"
        return f"{field.removeprefix('data/')}: {_value(value)}"
    type, _, target = rest.partition("/")
    others = {key: one for key, one in value.items() if key != "weight"}
    said = (
        f"-> {type} {address(target.replace('~1', '/').replace('~0', '~'))}{printing.weighed(value.get('weight', 1))}"
    )
    return f"{said} {as_text(others)}" if others else said


def _value(value: Any) -> str:
    """A value of a field for a terminal: a text with its lines, or the sections of a task."""
    if isinstance(value, str):
        return with_addresses("\n".join(line for line in value.splitlines() if line.strip()))
    if (
        isinstance(value, list)
        and value
        and all(isinstance(one, dict) and {*one} == {"title", "content"} for one in value)
    ):
        return "\n".join(f"{one['title']}: {' '.join(one['content'].split())}" for one in value)
    return with_addresses(listed(value))


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
    if not reverted and answer.get("conflicts"):
        open_now = counted(answer["conflicts"], "open conflicts")
        say(alert(f"  ! {open_now}; `kgd conflicts` shows the sides of each"))
    if not reverted and answer.get("next"):
        say(answer["next"])


def _new_knowledge(answer: Answer) -> None:
    for by in answer["authors"]:
        continued = " (continued)" if by.get("continued") else ""
        say(f"{bold(by['group'])}, {counted(by['commits'], 'commits')}{continued}")
        if answer.get("accepted"):
            continue
        diffs(by["nodes"])
        if is_terminal():
            say()
    if not answer["authors"]:
        say("no new knowledge")
    if answer.get("more") and not answer.get("accepted"):
        say(f"and {counted(answer['more'], 'nodes')} more: narrow it by --path, --author or --since")
    say_field(answer, "cut", alert("  ! {}: narrow it by --since"))


def conflicts(answer: Answer) -> None:
    if "suggestions" in answer:
        _suggestions(answer["suggestions"])
    found = [one["uri"] for one in answer["conflicts"]]
    for one in answer["conflicts"]:
        is_named = is_terminal() and found.count(one["uri"]) == 1
        if is_terminal() and one.get("name") and not printing.repeats_address(one):
            say(bold(one["name"]))
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


def _side(name: str, value: object) -> str:
    """The value of a side. The value of a whole node is absent if the side deleted the node."""
    return "deleted" if name == "node" and value is None else as_text(value)


def _plain_sides(name: str, field: Answer) -> None:
    say(f"    {name}, base: {as_text(field.get('base'))}")
    for side in field["sides"]:
        by = f"  {side['author']}, {short_id(side['commit'])} {side['at'][:16]}" if "author" in side else ""
        shown = "  (shown)" if side["side"] == field["shown"] else ""
        say(f"    {name}, {side['side']}:    {_side(name, side['value'])}{shown}{by}")


def _sides(name: str, field: Answer) -> None:
    """Print the sides of a field below each other, each with its author in a line of its own."""
    say(f"  {bold(name)}")
    say(f"    base  {as_text(field.get('base'))}", hang=10)
    for side in field["sides"]:
        say(f"    {bold(side['side'])}{' ' * (6 - len(side['side']))}{_side(name, side['value'])}", hang=10)
        shown = ["shown now"] if side["side"] == field["shown"] else []
        by = [side["author"], when(side["at"], side["at"][:16]), short_id(side["commit"])] if "author" in side else []
        say(f"          {faint(', '.join([*by, *shown]))}", hang=10)


def _suggestions(found: list[Answer]) -> None:
    for one in found:
        say(f"{bold(one['id'])}  {with_addresses(_suggested(one))}", hang=4)
        say(f"    {one['reason']}")
    if found:
        say("Accept one with `kgd resolve ID --take accept`, or dismiss it with `--take reject`.")
    else:
        say("no suggestions")
    if is_terminal():
        say()


def _suggested(one: Answer) -> str:
    if one["kind"] == "entity":
        return f"make {one['source']}: '{one['name']}'"
    if one["kind"] == "merge":
        return f"merge {one['source']} and {one['target']}"
    now = f" @{one['now']:g}" if "now" in one else ""
    return f"{one['source']} {one['type']} {one['target']}{now} -> @{one['weight']:g}"


def author(answer: Answer) -> None:
    what = "agent" if answer["agent"] else "person"
    clients = [one for one in answer["clients"] if one != answer["name"]]
    by = f" ({', '.join(clients)})" if clients else ""
    say(f"{bold(answer['name'])}{by}  {what}", hang=4)
    for one in answer["nodes"]:
        if is_terminal():
            printing.entry(one, when(one["at"]), "  ")
        else:
            say(f"  {address(one['uri'])}  {one['at'][:10]}")
            say_field(one, "summary", "    {}")
        if one.get("disputed"):
            fields = ", ".join(one["disputed"])
            say(alert(f"    ! this author's version; in conflict over {fields}: `kgd conflicts {short(one['uri'])}`"))
        elif one.get("changed_by"):
            say(faint(f"    changed since by {one['changed_by']}"))
    if is_terminal():
        gap()
    if answer["areas"]:
        _listed("knows", ", ".join(f"{one['name']} ({one['facts']})" for one in answer["areas"]))
    if answer["namespaces"]:
        _listed("writes in", ", ".join(f"{one['namespace']} ({one['nodes']})" for one in answer["namespaces"]))
    for one in answer["proposals"]:
        _listed("proposes", f"{one['id']}: {one['message']}")
    for one in answer["stale"]:
        _listed("stale", f"{address(one['uri'])}: {one['unverified']['reason']}")
    say_field(answer, "cut", alert("  ! {}"))


def _listed(label: str, value: str) -> None:
    """Write a line about an author. The values on a terminal are aligned."""
    if is_terminal():
        terminal.field(label, value, indent=0)
    else:
        say(f"{label} {value}")
