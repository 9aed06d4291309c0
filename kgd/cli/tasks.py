"""`kgd task`: adds, lists, shows and advances tasks by name, and prints them."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from kgd.cli import printing
from kgd.cli.output import show
from kgd.cli.terminal import address, bold, counted, faint, is_terminal, say, say_each, table
from kgd.client.connection import Connection
from kgd.config import Home
from kgd.errors import Invalid, NotFound

Given = dict[str, Any]

STEPS = {"start": "in-progress", "done": "completed", "cancel": "cancelled"}
ONLY_FOR = {
    "objective": ("add",),
    "accept": ("add",),
    "file": ("add",),
    "depends": ("add",),
    "tags": ("add",),
    "status": ("list",),
    "limit": ("list",),
    "notes": ("start", "done", "cancel"),
    "pattern": ("done",),
    "gotcha": ("done",),
    "summary": ("done", "cancel"),
}
"""The actions to which each option belongs."""


def task(given: Given, options: Given) -> int:
    action, name = given.get("action", "list"), given.get("task")
    for option, actions in ONLY_FOR.items():
        if option in given and action not in actions:
            raise Invalid(f"`kgd task {action}` has no --{option}", next="See `kgd task --help`.")
    if given.get("dry_run") and action != "add":
        raise Invalid(f"`kgd task {action}` has no --dry-run", next="`kgd undo` reverts it.")
    if not name and action != "list":
        advice = "Write `kgd task add NAME --objective TEXT`." if action == "add" else "`kgd task list` lists them."
        raise Invalid(f"`kgd task {action}` needs the name of a task", next=advice)
    where = {key: given[key] for key in ("workspace",) if key in given}
    with Connection(Home.find()) as connection:
        if action == "add":
            answer = connection.call("add_task", {**where, **_new(given)})
        elif action == "list":
            asked: Given = {key: given[key] for key in ("workspace", "status", "limit") if key in given}
            asked |= {"operation": "search", **({"query": name} if name else {})}
            answer = connection.call("query_container", asked)
        else:
            answer = _found(connection, {**where, "operation": "get", "id": name})
            if action in STEPS:
                found = answer["data"]["task"]
                step = {
                    "id": found["id"],
                    "version": found["version"],
                    "to": STEPS[action],
                    **_learned(given, answer["data"]["sections"]),
                }
                answer = connection.call("advance", {**where, **step})
    shown = answer if action == "add" else answer["data"].get("task") or next(iter(answer["data"].get("tasks", ())), {})
    if not options.get("json"):  # for addresses in short
        answer["workspace"] = shown["id"].split("/", 3)[2] if shown else ""
    show(f"tasks.task_{'list' if action == 'list' else 'add' if action == 'add' else 'show'}", answer, options)
    return 0


def _found(connection: Connection, asked: Given) -> Given:
    try:
        return connection.call("query_container", asked)
    except NotFound as error:
        raise NotFound(error.message, at=asked["id"], next=error.next) from None


def _new(given: Given) -> Given:
    names = {"task": "name", "file": "files"}
    wanted = ("task", "objective", "accept", "file", "depends", "tags", "dry_run")
    return {names.get(key, key): given[key] for key in wanted if key in given}


def _learned(given: Given, sections: list[Given]) -> Given:
    """The sections and the summary to write: new text is added below the existing text.

    Text that a section already has is left out.
    """
    titles = {"notes": "Handoff Notes", "pattern": "Patterns", "gotcha": "Gotchas"}
    written = []
    for key, title in titles.items():
        before = [one for one in sections if one["title"].casefold() == title.casefold() and one["content"].strip()]
        said = "\n".join(one["content"].rstrip() for one in before)
        if text := _unsaid(given.get(key, []), said):
            content = f"{said}\n{text}" if said else text
            written.append({"title": before[0]["title"] if before else title, "content": content})
    return {"sections": written, **({"summary": given["summary"]} if "summary" in given else {})}


def _unsaid(given: str | list[str], said: str) -> str:
    """The text, or the items of the text, that `said` does not contain."""
    if isinstance(given, str):
        return "" if given.strip() in said else given
    lines = said.splitlines()
    return "\n".join(line for item in given if (line := f"- {' '.join(item.split())}") not in lines)


Answer = dict[str, Any]


def task_list(answer: Answer) -> None:
    data = answer["data"]
    if is_terminal():
        rows = [(one["status"], bold(one["name"]), _summary(one)) for one in data["tasks"]]
        table(("STATUS", "TASK", "SUMMARY"), rows, lambda *row: f"{row[0]:<12} {row[1]}\n{'':12} {row[2]}".rstrip())
    for one in () if is_terminal() else data["tasks"]:
        name = unquote(one["id"].split("/", 3)[3])
        summary = f": {_summary(one)}" if _summary(one) else ""
        known = f" ({one['id']})" if name != one["name"] else ""
        say(f"{one['status']:<12} {bold(one['name'])}{summary}{known}")
    if len(data["tasks"]) < data["total"]:
        say(f"{len(data['tasks'])} of {data['total']}; --limit N shows more")
    if not data["tasks"]:
        say("no task found; `kgd task add NAME --objective TEXT --file PATH` creates one")


def _summary(task: Answer) -> str:
    return task["summary"] if task["summary"] and task["summary"] != task["name"] else ""


def task_add(answer: Answer) -> None:
    say(f"{'would add' if answer.get('dry_run') else 'added'} {bold(answer['name'])} ({address(answer['id'])})")
    printing.sections(answer["sections"])
    printing.warnings(answer)


def task_show(answer: Answer) -> None:
    data = answer["data"]
    task = data["task"]
    if is_terminal():
        say(f"{bold(task['name'])}  {task['status']}")
        say(f"  {address(task['id'])}")
    else:
        say(f"{bold(task['name'])} ({task['id']}): {task['status']}")
    objective = next((one["content"] for one in data.get("sections", ()) if one["title"] == "Objective"), "")
    if task["summary"] and not (is_terminal() and task["summary"] == objective.strip()):
        say(f"  {task['summary']}")
    for uri in task["dependsOn"]:
        say(f"  {faint('depends on')}  {address(uri)}")
    printing.sections(data.get("sections", []))
    already = data.get("already")
    if already:
        left = "" if data["commit"] else "; nothing changed"
        say(f"it was already {task['status']}, since {already['at']}, by {already['by']}{left}")
    recorded = [one for one in data.get("recorded", ()) if not (already and one.get("known"))]
    if recorded:
        say(f"recorded {counted(len(recorded), 'nodes')}:")
    for one in recorded:
        say(f"  {one['type']:<8} {one['summary']} ({address(one['id'])})", hang=11)
    printing.warnings(data)
    if (hints := data.get("graphHints")) and not already:
        say(hints["message"])
        say_each(hints["suggestedActions"], "  - {}")
