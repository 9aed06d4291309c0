"""Answers of `context`, `coverage`, `broken` and `questions` as text."""

from __future__ import annotations

from typing import Any

from kgd.cli import words
from kgd.cli.terminal import bold, say

Answer = dict[str, Any]
_HEADINGS = {
    "molecule": "Areas",
    "atom": "Areas",
    "gotcha": "Traps",
    "pattern": "Patterns",
    "decision": "Decisions",
    "insight": "Facts",
    "task": "Tasks",
    "concept": "Concepts",
    "file": "Files",
    "dir": "Files",
}
_NAMED = 20
_OF_THE_FILE = ("code", "changes", "changed_together", "known_by", "unmatched_paths", "described")
"""Lists of an answer that are about a file, not about one of its lines."""


def context(answer: Answer) -> None:
    _lines(answer)
    _items(answer)
    if code := answer.get("code"):
        say(bold("In the code"))
        for one in code:
            say(f"  {one['name']}  {one['uri']}")
            say(f"    {_one_line(one['why'])}")
    for name, title in (("changes", "Recent changes"), ("tried_before", "Related past commits")):
        if answer.get(name):
            say(bold(title))
            for one in answer[name]:
                _change(one)
    if answer.get("likely_files"):
        say(bold("Likely files"))
        for one in answer["likely_files"]:
            say(f"  {one['path']} ({', '.join(one['why'])})")
    if answer["changed_together"]:
        say(bold("Files that often change with them"))
        for one in answer["changed_together"]:
            say(f"  {one['path']}, in {one['count']} of {words.counted(one['of'], 'commits')}")
    if answer.get("known_by"):
        known = (f"{one['name']} ({words.counted(one['commits'], 'commits')})" for one in answer["known_by"])
        say(f"{bold('Main authors')} {', '.join(known)}")
    if paths := answer["unmatched_paths"]:
        say(bold("In no area"))
        described = set(answer.get("described", ()))
        for path in paths[:_NAMED]:
            say(f"  {path}{'' if path in described else ' (not described)'}")
        if len(paths) > _NAMED:
            say(f"  and {len(paths) - _NAMED} more")
    _cut(answer["cut"])
    if missing := answer.get("missing"):
        say(missing["message"])
    for uri in answer.get("nearest", ()):
        say(f"  nearest: {uri}")


def why(answer: Answer) -> None:
    """Print the origin of the lines and the knowledge about them, without the other context of the file."""
    _lines(answer)
    if not answer.get("lines"):
        say("no commit found: give a committed line of a file in the code tree, such as `kgd why src/app.py:12`")
    _items(answer)
    _cut([one for one in answer["cut"] if one["what"] not in _OF_THE_FILE])


def _items(answer: Answer) -> None:
    heading = ""
    for item in answer["items"]:
        if (found := _HEADINGS.get(item["kind"], "Other nodes")) != heading:
            heading = found
            say(bold(heading))
        _item(item)


def _cut(cut: list[Answer]) -> None:
    if cut:
        told = ", ".join(f"{one['count']} {one['what'].replace('_', ' ')}" for one in cut)
        say(f"left out for lack of room: {told}; raise --budget to see more")


def _lines(answer: Answer) -> None:
    for one in answer.get("lines", ()):
        last = f"-{one['last']}" if one["last"] > one["first"] else ""
        say(bold(f"{one['path']}:{one['first']}{last}"))
        for line in one["text"].splitlines():
            say(f"  | {line}")
        if one.get("uncommitted"):
            say("  changed since the last commit")
            continue
        _change(one)
        if one.get("was"):
            say(f"    was {one['was']}")


def _change(one: Answer) -> None:
    """Print an entry of a changelog or a commit of the code, with its reason."""
    where = one.get("area") or words.short(one["commit"])
    by = f" {one['by']}:" if one.get("by") else ""
    undone = f" (reverted by {', '.join(map(words.short, one['reverted_by']))})" if one.get("reverted_by") else ""
    say(f"  {one['at'][:10]} {where}{by} {_one_line(one['what'])}{undone}")
    if one.get("why"):
        say(f"    {_one_line(one['why'])}")


def _item(item: Answer) -> None:
    say(f"  {bold(item['name'])}  {item['uri']}")
    say(f"    {_one_line(item['why'])}")
    if stale := item.get("unverified"):
        say(f"    ! unverified: {_one_line(stale['reason'])}")
    if item.get("conflicts"):
        say(f"    ! open conflict: {', '.join(item['conflicts'])}")
    if item.get("summary"):
        say(f"    {item['summary']}")
    for line in item.get("text", "").splitlines():
        say(f"    {line}" if line.strip() else "")
    if item.get("more"):
        say(f"    (more: kgd get {item['uri']})")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def coverage(answer: Answer) -> None:
    if answer["state"] != "ready":
        say(answer["next"])
        return
    if area := answer.get("area"):
        say(f"{bold(area['name'])}  {words.counted(area['files'], 'files')}")
    if here := answer.get("folder"):
        say(_folder(here, here["path"] or "."))
    for folder in answer["folders"]:
        say(f"  {_folder(folder, folder['name'] + '/')}")
    for file in answer["files"]:
        say(f"  {file['path' if area else 'name']}  {_areas(file) or '-'}")
    for overlap in answer.get("overlaps", ()):
        place = overlap["folder"] or "the top"
        say(f"overlap: {_areas(overlap)} have {words.counted(overlap['files'], 'files')} in common, as in {place}")
    for one in answer.get("moved", ()):
        say(f"{one['name']}: {one['changed']} lines changed since it was confirmed, in an area of {one['lines']}")


def broken(answer: Answer) -> None:
    for missing in answer["broken"]:
        say(bold(missing["uri"]))
        for link in missing["links"]:
            say(f"    {link['type']} from {link['source']}")
    if not answer["broken"]:
        say("no broken links")
    else:
        say("Write the missing node with `kgd put`, or remove the relation with `kgd unlink`.")


def questions(answer: Answer) -> None:
    for one in answer["questions"]:
        times = f", {one['count']} times" if one["count"] > 1 else ""
        say(f"{bold(one['text'])}  {one['id']}  {one['at']}{times}{', ' + one['client'] if one['client'] else ''}")
    if not answer["questions"]:
        say(answer.get("hint") or "no open questions")
    else:
        say('Write an answer with `kgd remember "…"`, or forget a question with `kgd questions --dismiss ID`.')


def _folder(folder: Answer, name: str) -> str:
    share = 100 * folder["covered"] // max(1, folder["files"])
    told = f"{bold(name)}  {share} % of {words.counted(folder['files'], 'files')}"
    return f"{told}  {areas}" if (areas := _areas(folder)) else told


def _areas(one: Answer) -> str:
    named = [area["name"] for area in one["areas"]]
    return ", ".join([*named, f"{one['more_areas']} more"] if one.get("more_areas") else named)
