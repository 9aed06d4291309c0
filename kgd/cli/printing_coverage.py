"""This file is where it is printed how much of the code areas cover, and which links lead to nothing."""

from __future__ import annotations

from typing import Any

from kgd.cli import words
from kgd.cli.terminal import bold, say

Answer = dict[str, Any]


def coverage(answer: Answer) -> None:
    if answer["state"] != "ready":
        say(answer["next"])
        return
    if area := answer.get("area"):
        say(f"{bold(area['name'])}  {words.counted(area['files'], 'files')}")
    if here := answer.get("folder"):
        say(_line(here, here["path"] or "."))
    for folder in answer["folders"]:
        say(f"  {_line(folder, folder['name'] + '/')}")
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
        say("Write what is missing with `kgd put`, or take the relation away with `kgd unlink`.")


def _line(folder: Answer, name: str) -> str:
    share = 100 * folder["covered"] // max(1, folder["files"])
    told = f"{bold(name)}  {share} % of {words.counted(folder['files'], 'files')}"
    return f"{told}  {areas}" if (areas := _areas(folder)) else told


def _areas(one: Answer) -> str:
    named = [area["name"] for area in one["areas"]]
    return ", ".join([*named, f"{one['more_areas']} more"] if one.get("more_areas") else named)
