"""Answers about tasks as text."""

from __future__ import annotations

from typing import Any

from kgd.cli import words
from kgd.cli.terminal import bold, say

Answer = dict[str, Any]


def task_list(answer: Answer) -> None:
    data = answer["data"]
    for one in data["tasks"]:
        name = one["id"].split("/", 3)[3]
        summary = f": {one['summary']}" if one["summary"] and one["summary"] != one["name"] else ""
        known = f" ({one['id']})" if name != one["name"] else ""
        say(f"{one['status']:<12} {bold(one['name'])}{summary}{known}")
    if len(data["tasks"]) < data["total"]:
        say(f"{len(data['tasks'])} of {data['total']}; --limit N shows more")
    if not data["tasks"]:
        say("no task found; `kgd task add NAME --objective TEXT --file PATH` makes one")


def task_add(answer: Answer) -> None:
    say(f"{'would add' if answer.get('dry_run') else 'added'} {bold(answer['name'])} ({answer['id']})")
    _sections(answer["sections"])
    for warning in answer["warnings"]:
        say(f"  ! {warning}")


def task_show(answer: Answer) -> None:
    data = answer["data"]
    task = data["task"]
    say(f"{bold(task['name'])} ({task['id']}): {task['status']}")
    if task["summary"]:
        say(f"  {task['summary']}")
    for uri in task["dependsOn"]:
        say(f"  depends on  {uri}")
    _sections(data.get("sections", []))
    already = data.get("already")
    if already:
        left = "" if data["commit"] else "; nothing changed"
        say(f"it was {task['status']} already, since {already['at']} by {already['by']}{left}")
    recorded = [one for one in data.get("recorded", ()) if not (already and one.get("known"))]
    if recorded:
        say(f"recorded {words.counted(len(recorded), 'nodes')}:")
    for one in recorded:
        say(f"  {one['type']:<8} {one['summary']} ({one['id']})")
    for warning in data.get("warnings", ()):
        say(f"  ! {warning}")
    if (hints := data.get("graphHints")) and not already:
        say(hints["message"])
        for action in hints["suggestedActions"]:
            say(f"  - {action}")


def _sections(sections: list[Answer]) -> None:
    for one in sections:
        say(f"  {bold(one['title'])}")
        for line in one["content"].splitlines():
            say(f"    {line}")
