"""The answer about an author as text."""

from __future__ import annotations

from kgd.cli.printing import Answer, entry
from kgd.cli.terminal import address, alert, bold, is_terminal, say, when


def author(answer: Answer) -> None:
    what = "agent" if answer["agent"] else "person"
    by = f" through {', '.join(answer['clients'])}" if answer["clients"] else ""
    say(f"{bold(answer['name'])}  {what}{by}", hang=4)
    for one in answer["nodes"]:
        if is_terminal():
            entry(one, when(one["at"]), "  ")
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
