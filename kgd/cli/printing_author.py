"""The answer about an author as text."""

from __future__ import annotations

from kgd.cli.printing import Answer
from kgd.cli.terminal import address, alert, bold, faint, say, when


def author(answer: Answer) -> None:
    what = "agent" if answer["agent"] else "person"
    by = f" through {', '.join(answer['clients'])}" if answer["clients"] else ""
    say(f"{bold(answer['name'])}  {what}{by}", hang=4)
    for one in answer["nodes"]:
        say(f"  {address(one['uri'])}  {faint(when(one['at'], one['at'][:10]))}", hang=4)
        if one.get("summary"):
            say(f"    {one['summary']}", hang=4)
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
