"""Answers of `context`, `coverage`, `broken` and `questions` as text."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from kgd.cli import printing
from kgd.cli.terminal import (
    address,
    alert,
    bold,
    commit,
    complain,
    counted,
    faint,
    gap,
    heading,
    is_terminal,
    say,
    say_each,
    say_field,
    short,
    short_id,
    table,
    verbatim,
    when,
)

Answer = dict[str, Any]
_HEADINGS = {
    "molecule": "Areas",
    "atom": "Areas",
    "gotcha": "Gotchas",
    "pattern": "Patterns",
    "decision": "Decisions",
    "insight": "Facts",
    "task": "Tasks",
    "concept": "Concepts",
    "file": "Files",
    "dir": "Files",
}
_LEFT_OUT = {kind: heading.lower() for kind, heading in _HEADINGS.items()} | {
    "known_by": "main authors",
    "code": "results in the code",
}
"""The names of kinds and lists in the line about the budget."""
_NAMED = 3
"""Largest number of paths without an area that are listed."""
NO_LINE = "Write a file and one of its lines, as in `kgd why src/app.py:12`, or the file alone."
"""The next step after an error."""
_OF_THE_FILE = ("code", "changes", "changed_together", "known_by", "unmatched_paths", "described")
"""Lists of an answer that are about a file, not about one of its lines."""


def context(answer: Answer) -> None:
    missing = answer.get("missing") if answer.get("unknown_paths") or not answer["items"] else None
    if missing and not answer["unmatched_paths"]:
        _nothing_known(answer, missing)
    _lines(answer)
    _items(answer)
    _in_the_code(answer.get("code", ()))
    _changes(answer)
    if answer.get("likely_files"):
        heading("Likely files")
        for one in answer["likely_files"]:
            say(f"  {one['path']} {faint('(' + ', '.join(one['why']) + ')')}", hang=4)
    if answer["changed_together"]:
        heading("Files that often change with them")
        for one in answer["changed_together"]:
            say(f"  {one['path']}, in {one['count']} of {counted(one['of'], 'commits')}")
    _known_by(answer)
    _notes(answer)
    _in_no_area(answer, missing)
    for one in answer.get("unknown_lines", ()):
        complain(one, _after(one))
    _cut(answer["cut"])
    if missing and answer["unmatched_paths"]:
        _nothing_known(answer, missing)
    if is_terminal():
        _new_area(answer["unmatched_paths"])


def _nothing_known(answer: Answer, missing: Answer) -> None:
    say(missing["message"])
    for uri in answer.get("nearest", ()):
        say(f"  nearest: {address(uri)}")


def _in_the_code(found: Sequence[Answer]) -> None:
    if found:
        heading("In the code")
        for one in found:
            _code(one)


def _code(one: Answer) -> None:
    if not is_terminal():
        say(f"  {one['name']}  {one['uri']}")
        say(f"    {_one_line(one['why'])}")
    elif printing.headline(one):
        printing.entry(one, _one_line(one["why"]), "  ")
    else:
        say(f"  {printing.position(one)}  {faint(_one_line(one['why']))}", hang=4)


def _in_no_area(answer: Answer, missing: Answer | None) -> None:
    """Name the paths without an area, or count them if there are many, unless the message in `missing` names them."""
    paths, described = answer["unmatched_paths"], answer.get("described", ())
    if len(paths) > _NAMED:
        if not missing:
            gap()
            say(f"{len(paths)} files belong to no area")
    elif len(paths) > 1 or (paths and not missing):
        heading("In no area")
        for path in paths:
            say(f"  {path}{'' if path in described else ' (no fact names it)'}")


def _new_area(paths: Sequence[str]) -> None:
    """Print the command that creates an area for the first of the paths that is in the code tree."""
    if path := next((one for one in paths if not one.startswith(("/", "../"))), ""):
        folder = path.rpartition("/")[0]
        data = json.dumps({"paths": [f"{folder}/**" if folder else path]}, ensure_ascii=False)
        say("`kgd areas` lists the areas; this command creates one:")
        verbatim(f"  kgd put atom:NAME --data {shlex.quote(data)} --content RULES")


def why(answer: Answer) -> None:
    """Print the origin of the lines and the knowledge about them, without the other context of the file.

    Without lines, print the knowledge about the files and their recent changes. Errors come last. If there are no lines
    and no file with commits, only errors are printed.
    """
    unknown_lines, unknown_paths = answer.get("unknown_lines", ()), answer.get("unknown_paths", ())
    if answer.get("lines"):
        _lines(answer)
        _items(answer)
        _cut([one for one in answer["cut"] if one["what"] not in _OF_THE_FILE])
    elif not unknown_lines and (answer["changes"] or not unknown_paths):
        _items(answer)
        _in_the_code([one for one in answer.get("code", ()) if one["why"].startswith("found ")])
        _changes(answer)
        _known_by(answer)
        _cut([one for one in answer["cut"] if one["what"] not in ("code", "unmatched_paths", "described")])
        if not (answer["items"] or answer["changes"] or answer.get("code")):
            rest = "" if answer.get("notes") else ", and its history has no commits"
            say(f"nothing is known about it{rest}")
    _notes(answer)
    for one in dict.fromkeys((*unknown_lines, *unknown_paths)):
        complain(one, "" if "no code tree" in one else _after(one))


def _notes(answer: Answer) -> None:
    say_each(answer.get("notes", ()), alert("! {}"), hang=2)


def _after(missing: str) -> str:
    """The next step after a sentence about a missing line or file."""
    if missing.endswith("is a node"):
        uri = missing.split()[-4]
        return f"`kgd get {address(uri)}` shows it, and `kgd history {address(uri)}` its changes."
    path, is_symbol, _ = missing.partition(" has no symbol ")
    if is_symbol:
        return f"`kgd context {path}` shows the facts about the file."
    folder, is_folder, _ = missing.partition(" is a folder")
    return f"`kgd why {folder}` shows the facts about the folder." if is_folder else NO_LINE


def _known_by(answer: Answer) -> None:
    if answer.get("known_by"):
        known = (f"{one['name']} ({counted(one['commits'], 'commits')})" for one in answer["known_by"])
        gap()
        say(f"{bold('Main authors')}  {', '.join(known)}", hang=2)


def _changes(answer: Answer) -> None:
    for name, title in (("changes", "Recent changes"), ("tried_before", "Related past commits")):
        if answer.get(name):
            heading(title)
            for one in answer[name]:
                _change(one)


def _items(answer: Answer) -> None:
    """Print the nodes under their kinds. For lines, nodes that are only about the file follow under one heading."""
    sections: dict[str, list[Answer]] = {}
    of_file = [item for item in answer["items"] if answer.get("lines") and not item.get("on_line")]
    for item in answer["items"]:
        if item not in of_file:
            sections.setdefault(_HEADINGS.get(item["kind"], "Other nodes"), []).append(item)
    sections |= {"About the file": of_file} if of_file else {}
    for title, items in sections.items():
        heading(title)
        for item in items:
            _item(item)


def _cut(cut: list[Answer]) -> None:
    if cut:
        counts: dict[str, int] = {}
        for one in cut:
            what = _LEFT_OUT.get(one["what"], one["what"].replace("_", " "))
            counts[what] = counts.get(what, 0) + one["count"]
        told = ", ".join(counted(count, what) for what, count in counts.items())
        say(f"left out to fit the budget: {told}; raise --budget to see more")


def _lines(answer: Answer) -> None:
    for one in answer.get("lines", ()):
        last = f"-{one['last']}" if one["last"] > one["first"] else ""
        say(bold(f"{one['path']}:{one['first']}{last}"))
        for line in one["text"].splitlines():
            say(f"  {faint('|')} {line}")
        if one.get("uncommitted"):
            say("  not committed yet")
            continue
        if one.get("older"):
            say("  written before the history of this shallow clone")
            continue
        _change(one)
        say_field(one, "was", faint("    was {}"))


def _change(one: Answer) -> None:
    """Print an entry of a changelog or a commit of the code, with its reason."""
    where = one.get("area") or commit(one["commit"])
    by = f" {one['by']}:" if one.get("by") else ""
    undone = f" (reverted by {', '.join(map(short_id, one['reverted_by']))})" if one.get("reverted_by") else ""
    if is_terminal():
        say(f"  {bold(_one_line(one['what']))}{undone}", hang=4)
        say(f"    {where}  {faint(', '.join(filter(None, (one.get('by'), when(one['at'])))))}")
    else:
        say(f"  {one['at'][:10]} {where}{by} {_one_line(one['what'])}{undone}")
    if one.get("why"):
        say(f"    {_one_line(one['why'])}")


def _item(item: Answer) -> None:
    title = printing.entry(item, _one_line(item["why"]), "  ") if is_terminal() else ""
    if not is_terminal():
        say(f"  {item['name']}  {item['uri']}")
    if not title:
        say(f"    {faint(_one_line(item['why']))}", hang=6)
    printing.doubts(item, "    ")
    if item.get("conflicts"):
        say(alert(f"    ! open conflict: {', '.join(item['conflicts'])}"))
    if item.get("summary") and item["summary"] != title:
        say(f"    {item['summary']}")
    for line in item.get("text", "").splitlines():
        say(f"    {line}" if line.strip() else "")
    if item.get("more"):
        say(faint(f"    (more: `kgd get {short(item['uri'])}`)"))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def coverage(answer: Answer) -> None:
    if answer["state"] != "ready":
        say(answer["next"])
        return
    if area := answer.get("area"):
        say(f"{bold(area['name'])}  {counted(area['files'], 'files')}")
    if here := answer.get("folder"):
        say(_folder(here, here["path"] or "."))
    if is_terminal():
        _coverage_table(answer)
        return
    for folder in answer["folders"]:
        say(f"  {_folder(folder, folder['name'] + '/')}")
    for file in answer["files"]:
        say(f"  {file['path' if area else 'name']}  {_areas(file) or '-'}")
    _overlaps(answer)


def _coverage_table(answer: Answer) -> None:
    """Print folders and files as a table, or the files of an area."""
    if area := answer.get("area"):
        files = [(one["path"], str(one.get("facts", 0)), _other_areas(one, area["uri"])) for one in answer["files"]]
        table(("PATH", "FACTS", "ALSO IN"), files, lambda *row: "  ".join(filter(None, row)))
        return
    rows = [
        (f"{one['name']}/", f"{100 * one['covered'] // max(1, one['files'])} %", str(one["files"]), _areas(one))
        for one in answer["folders"]
    ]
    rows += [(one["name"], "", "", _areas(one)) for one in answer["files"] if _areas(one)]
    table(("PATH", "COVERED", "FILES", "AREAS"), rows, lambda *row: "  ".join(filter(None, row)))
    if bare := [one["name"] for one in answer["files"] if not _areas(one)]:
        say(faint(f"files without an area: {', '.join(bare)}"), hang=2)
    _overlaps(answer)


def _overlaps(answer: Answer) -> None:
    if answer.get("overlaps") or answer.get("moved"):
        gap()
    for overlap in answer.get("overlaps", ()):
        place = overlap["folder"] or "the top"
        say(f"overlap: {_areas(overlap)} have {counted(overlap['files'], 'files')} in common, as in {place}")
    for one in answer.get("moved", ()):
        say(f"{one['name']}: {one['changed']} of {one['lines']} lines changed since its rules were confirmed", hang=2)


def broken(answer: Answer) -> None:
    for missing in answer["broken"]:
        say(address(missing["uri"]))
        for link in missing["links"]:
            say(f"    {link['type']} from {address(link['source'])}")
        say_field(missing, "next", "    {}", hang=4)
    unexplained = [one for one in answer["broken"] if not {"moved", "former"} & one.keys()]
    left = [one["uri"].partition(":")[0] in printing.IN_CODE for one in unexplained]
    if not answer["broken"]:
        which = f" to {address(answer['uri'])}; `kgd broken` lists all" if "uri" in answer else ""
        say(f"no broken links{which}")
    elif not all(left):
        say("Write the missing node with `kgd put`, or remove the relation with `kgd unlink`.")
    elif left:
        say("After a rename, `kgd mv OLD NEW` moves the facts about a file; `kgd unlink` removes a relation.")


def questions(answer: Answer) -> None:
    for one in answer["questions"]:
        times = f", {one['count']} times" if one["count"] > 1 else ""
        say(
            f"{bold(one['text'])}  {one['id']}  {when(one['at'])}{times}{', ' + one['client'] if one['client'] else ''}"
        )
    if not answer["questions"]:
        say(answer.get("hint") or "no open questions")
    else:
        say('Write an answer with `kgd remember "…"`, or forget a question with `kgd questions --dismiss ID`.')


def _folder(folder: Answer, name: str) -> str:
    share = 100 * folder["covered"] // max(1, folder["files"])
    told = f"{bold(name)}  {share} % of {counted(folder['files'], 'files')}"
    return f"{told}  {areas}" if (areas := _areas(folder)) else told


def _other_areas(file: Answer, uri: str) -> str:
    return _areas({**file, "areas": [one for one in file["areas"] if one["uri"] != uri]})


def _areas(one: Answer) -> str:
    named = [area["name"] for area in one["areas"]]
    return ", ".join([*named, f"{one['more_areas']} more"] if one.get("more_areas") else named)
