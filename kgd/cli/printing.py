"""Answers as text for a person. The text may change at any time; programs use `--json`."""

from __future__ import annotations

import sys
from typing import Any

from kgd.cli import words
from kgd.cli.terminal import bold, red, say
from kgd.model.escaping import fenced, fenced_line

Answer = dict[str, Any]
_OF_AN_IMPORT = ("imported", "vault", "orchestrator", "rule")
"""Keys of `data` by which imports and exports recognize nodes; they are of no use to a reader."""
_IN_OTHER_LINES = frozenset({"uri", "type", "name", "asked", "summary", "aliases", "content", "lapsed"})
"""Fields of a node that are part of other lines, or are not printed."""
STEPS = 5
"""Number of names shown before a node's own name in a path."""


def put(answer: Answer) -> None:
    if answer.get("dry_run"):
        say("dry run: nothing was written")
    elif answer.get("repeated"):
        say(f"applied before, as {words.short(answer['commit'])}")
    elif answer.get("commit"):
        say(f"commit {words.short(answer['commit'])}")
    else:
        say("nothing changed")
    created = set(answer.get("created", ()))
    if reverted := answer.get("reverted"):
        say(f"  reverts {words.short(reverted['commit'])} by {reverted['author']}, {reverted['message']}")
    for node in answer.get("nodes", ()):
        say(f"  {node['uri']}  {'new' if node['uri'] in created else 'version ' + str(node['version'])}")
    for uri in answer.get("deleted", ()):
        say(f"  {uri}  deleted")
    for one in answer.get("similar", ()):
        say(f"  {one['uri']} looks like {', '.join(one['like'])}")
    warnings(answer)


def get(answer: Answer) -> None:
    for number, node in enumerate(answer["nodes"]):
        if number:
            say()
        _node(node, answer.get("as_of"))


def search(answer: Answer) -> None:
    _hits(answer["hits"])
    if not answer["hits"]:
        say(f"nothing is known about this{tail(answer.get('hint', '').removeprefix('Nothing is known about this.'))}")
        for uri in answer.get("nearest", ()):
            say(f"    nearest: {uri}")
    if answer.get("code"):
        say("in the code:")
        _hits(answer["code"])


def _hits(hits: list[Answer]) -> None:
    for hit in hits:
        node = hit.get("node", hit)
        say(f"{bold(node['uri'])}  {_title(node)}".rstrip())
        for text in (node.get("summary"), hit.get("snippet")):
            if text and text != _title(node):
                say(f"    {text}")
        if hit.get("why"):
            say(f"    {words.listed(hit['why'])}")
        if doubt := hit.get("unverified"):
            say(f"    ! unverified: {doubt['reason']}")


def traverse(answer: Answer) -> None:
    paths: dict[str, list[str]] = {}
    for node in answer["nodes"]:
        say(_reached(node))
        if path := _path(node, paths):
            say(f"        {path}")
        if doubt := node.get("unverified"):
            say(f"        ! unverified: {doubt['reason']}")
    _unreached(answer)
    _cut(answer)
    for link in answer["broken_links"]:
        seen = f"{link['reason']}, last seen {link['last_seen']}" if link.get("last_seen") else link.get("reason")
        say(red(f"   broken: {link['source']} {link['type']} {link['target']}{tail(seen)}"))
    for start in answer.get("absent", ()):
        say(f"   absent: {start['uri']}{tail(start['reason'])}")
    for conflict in answer.get("conflicts", ()):
        say(f"   conflict: {conflict['uri']}")
    if hint := answer.get("hint"):
        say(f"   {hint['message']}")


def path(answer: Answer) -> None:
    """Print the nodes of a path, each after the relation that leads to it."""
    for node in answer["nodes"]:
        if via := node.get("via"):
            say(f"        <- {via['type']} -" if via.get("direction") else f"        - {via['type']} ->")
        say(_reached(node))
    _unreached(answer)
    _cut(answer)


def _unreached(answer: Answer) -> None:
    if end := answer.get("unreached"):
        say(f"no path leads to {end} with these options; try without --direction, --max-cost and --max-depth")


def _cut(answer: Answer) -> None:
    for cut in answer["cut"]:
        say(f"   cut by {cut['limit']} at {cut['at']}: {cut['count']} or more left out")


def _reached(node: Answer) -> str:
    return f"{node['cost']:>6.3g}  {bold(node['uri'])}  {node.get('summary') or _title(node)}".rstrip()


def _path(node: Answer, paths: dict[str, list[str]]) -> str:
    """The names that lead to a node, at most the last `STEPS`; empty next to a start. Adds its path to `paths`.

    A node of an earlier page has no entry in `paths`, so the names begin with that node.
    """
    path = paths[node["uri"]] = []
    if via := node.get("via"):
        steps = [*via.get("through", ()), via]
        begun = paths.get(steps[0]["from"])
        path += [*(["…"] if begun is None else begun), *(step["from"] for step in steps)][-STEPS - 1 :]
    names = [uri.rstrip("/").rpartition("/")[2] for uri in (*path, node["uri"])]
    if len(path) > STEPS:
        names[0] = "…"
    return " > ".join(names) if len(path) > 1 else ""


def history(answer: Answer) -> None:
    for number, commit in enumerate(answer["commits"]):
        if number:
            say()
        client = f" through {commit['client']}" if commit.get("client") else ""
        at = f"  {commit['at']}" if commit["at"] else ""  # the first commit has no time
        say(f"{bold(words.short(commit['commit']))}{at}  {words.by(commit)}{client}")
        for line in commit["message"].splitlines():
            say(f"    {line}")
        for uri in commit["nodes"]:
            say(f"    {uri}")
        if commit.get("more_nodes"):
            say(f"    and {commit['more_nodes']} more")
        diffs(commit.get("diff", ()))
    if not answer["commits"]:
        say("no commits")


def log(answer: Answer) -> None:
    for commit in answer["commits"]:
        subject = commit["message"].partition("\n")[0]
        say(f"{bold(words.short(commit['commit']))}  {commit['at'][:16]:16}  {commit['author']:<16.16}  {subject}")
    if not answer["commits"]:
        say("no commits")


def diff(answer: Answer) -> None:
    diffs(answer["diff"], indent="")
    if not answer["diff"]:
        say("no difference")


def conflicts(answer: Answer) -> None:
    if "suggestions" in answer:
        _suggestions(answer["suggestions"])
    for one in answer["conflicts"]:
        say(f"{bold(one['uri'])}  {one['id']}")
        for name, field in one["fields"].items():
            say(f"    {name}, base: {words.text(field.get('base'))}")
            for side in field["sides"]:
                by = f"  {side['author']}, {words.short(side['commit'])} {side['at'][:16]}" if "author" in side else ""
                shown = "  (shown)" if side["side"] == field["shown"] else ""
                say(f"    {name}, {side['side']}:    {words.text(side['value'])}{shown}{by}")
    if not answer["conflicts"]:
        say("no open conflicts")
    else:
        say("Settle one with `kgd resolve ID --take a`, or with --fields.")


def _suggestions(found: list[Answer]) -> None:
    for one in found:
        say(f"{bold(one['id'])}  {_suggested(one)}")
        say(f"    {one['reason']}")
    if found:
        say("Accept one with `kgd resolve ID --take accept`, or dismiss it with `--take reject`.")
    else:
        say("no suggestions: no nodes are read together often enough, and every recurring name is a node")


def _suggested(one: Answer) -> str:
    if one["kind"] == "entity":
        return f"make {one['source']}: '{one['name']}'"
    if one["kind"] == "merge":
        return f"merge {one['source']} and {one['target']}"
    now = f" @{one['now']:g}" if "now" in one else ""
    return f"{one['source']} {one['type']} {one['target']}{now} -> @{one['weight']:g}"


def review(answer: Answer) -> None:
    for by in answer["authors"]:
        through = f" through {by['client']}" if by.get("client") else ""
        say(f"{bold(words.by(by))}{through}, {words.counted(by['commits'], 'commits')}")
        diffs(by["nodes"])
    if not answer["authors"]:
        say("no new knowledge")
    if answer.get("more"):
        say(f"and {words.counted(answer['more'], 'nodes')} more: narrow it by --path, --by or --since")
    if answer.get("cut"):
        say(f"  ! {answer['cut']}: narrow it by --since")
    if answer.get("accepted"):
        say(f"reviewed up to {words.short(answer['accepted'])}")
    if answer.get("reverted"):
        put(answer["reverted"])
    if answer.get("next"):
        say(answer["next"])


def facts(answer: Answer) -> None:
    """Print an answer of a few counts and names."""
    _rest(answer)


def _node(node: Answer, as_of: str | None = None) -> None:
    version = f"version {node['version']}" if node.get("version") else "not stored"
    say(f"{bold(node['uri'])}  {node['type']}, {f'as of {words.short(as_of)}' if as_of else version}")
    for told in dict.fromkeys((_title(node), node.get("summary"))):
        if told:
            say(f"  {told}")
    for name, value in node.items():
        if name not in _IN_OTHER_LINES and isinstance(value, str | list) and all(isinstance(one, str) for one in value):
            say(f"  {name.replace('_', ' ')}: {words.listed(value) if isinstance(value, list) else value}")
    if node.get("data"):
        for key, value in node["data"].items():
            if key not in (_OF_AN_IMPORT if "imported" in node["data"] else ()) and key != "verified":
                say(f"  {key}: {words.text(value)}")
    for key, value in node.get("others", {}).items():
        say(f"  unknown key {key}: {words.text(value)}")
    if updated := node.get("updated"):
        say(f"  updated {updated['at']} by {updated['by']}")
    texts = [node.get("content"), node.get("detail", {}).get("text")]
    for text in filter(None, texts):
        say()
        say(text.rstrip("\n"))
    if any(texts):
        say()
    for relation in node.get("relations", ()):
        broken = "  (broken link)" if relation.get("broken") else ""
        line = f"  -> {relation['type']} {relation['target']} @{relation['weight']:g}{broken}"
        say(red(line) if broken else line)
    for relation in node.get("incoming", ()):
        say(f"  <- {relation['type']} {relation['source']} @{relation['weight']:g}")
    for way, arrow in (("out", "~>"), ("into", "<~")):
        for uri in node.get("mentions", {}).get(way, ()):
            say(f"  {arrow} {'mentions' if way == 'out' else 'mentioned by'} {uri}")
    for citation in node.get("citations", ()):
        _citation(citation)
    for message in node.get("messages", ()):
        _message(message)
    for commit in node.get("history", ()):
        say(f"  {words.short(commit['commit'])} {commit['at'][:16]} {commit['author']}: {commit['message']}")
    for conflict in node.get("conflicts", ()):
        say(f"  ! open conflict over {', '.join(conflict['fields'])}: `kgd conflicts {node['uri']}`")
    if doubt := node.get("unverified"):
        say(f"  ! unverified: {doubt['reason']}; `kgd stale --verify {node['uri']}` after a check")
    if node.get("lapsed"):
        say(f"  ! {node['lapsed']}")
    if invalid := node.get("invalid_file"):
        say(red(f"  ! {invalid['path']}:{invalid['line']}: {invalid['reason']} (the last good version is shown)"))


def _citation(one: Answer) -> None:
    say(f"  cites {one['text']}: {one.get('reason') or one.get('state', 'not compared')}")
    for number, line in enumerate(one.get("code", "").splitlines(), one.get("first", 1)):
        say(f"    {number:>5}  {line}")
    if diff := one.get("diff"):
        say("    changed since:")
        for line in diff.splitlines():
            say(f"      {line}")


def diffs(changes: Any, indent: str = "    ") -> None:
    for change in changes:
        say(f"{indent}{change['change']} {change['uri']}")
        for name, field in change["fields"].items():
            if field.get("before") not in (None, "", [], {}):
                say(f"{indent}  - {name}: {words.text(field['before'])}")
            if field.get("after") not in (None, "", [], {}):
                say(f"{indent}  + {name}: {words.text(field['after'])}")


def _rest(answer: Answer, *but: str) -> None:
    for name, value in answer.items():
        if name in but or name == "ok" or value in (None, "", [], {}):
            continue
        say(f"{name.replace('_', ' ')}: {words.counts(value) if isinstance(value, dict) else words.listed(value)}")


def _title(node: Answer) -> str:
    """The name; empty if it only repeats the URI, as for external resources."""
    name = str(node.get("name") or "")
    return "" if name == node["uri"] else name


def tail(text: Any) -> str:
    return f": {text}" if text else ""


def warnings(answer: Answer) -> None:
    for warning in answer.get("warnings", ()):
        say(f"  ! {warning}")


def more(answer: Answer, options: Answer) -> None:
    """Print how to continue, unless the answer ended at `--limit` rows."""
    got = max((len(value) for value in answer.values() if isinstance(value, list)), default=0)
    if options.get("cursor") or got != options.get("limit"):
        say(f"more: --cursor {answer['cursor']}")


def missing(answer: Answer) -> None:
    """Print missing nodes, with the reason, to standard error."""
    for one in answer["missing"]:
        if invalid := one.get("invalid_file"):
            said, then = f"{invalid['path']}:{invalid['line']}: {invalid['reason']}", invalid["next"]
        elif why := _UNKNOWN.get(one.get("reason", "")):
            seen = f"; last seen {one['last_seen']}" if one.get("last_seen") else ""
            said = why[0].format(workspace=one.get("workspace", ""))
            said, then = f"{said}{tail(one.get('detail'))}{seen} ({one['uri']})", why[1].format(uri=one["uri"])
        else:
            close = ", ".join(one["similar"])
            said, then = (
                f"there is no such node ({one['uri']})",
                f"Did you mean {close}?" if close else "Look for it with `kgd search`.",
            )
        sys.stderr.write(f"kgd: {said}\n" + (f"     {then}\n" if then else ""))


_UNKNOWN = {
    "not_then": (
        "this node exists now, but did not exist at that commit",
        "`kgd history {uri}` shows its first commit.",
    ),
    "unreachable": ("the hub of workspace '{workspace}' does not answer", "Ask again later."),
    "forbidden": (
        "the hub of workspace '{workspace}' does not allow you to read this",
        "`kgd whoami` shows your identity there; `kgd join` replaces the token.",
    ),
    "unknown_workspace": (
        "the hub does not serve workspace '{workspace}' to your token",
        "`kgd whoami` lists its workspaces.",
    ),
}
"""The reason for a missing node, if one is known, and the next step."""


def health(state: str) -> str:
    return state if state == "ok" else bold(state)


def _message(one: dict[str, Any]) -> None:
    say()
    answered = f", answers {one['answers']}" if one.get("answers") else ""
    say(f"  {bold(fenced_line(one['sender'], 255))} {one.get('at', '')}  {one['uri']}{answered}")
    for line in fenced(one["content"]).rstrip("\n").split("\n"):
        say(f"    {line}")
    for call in one.get("tool_calls", ()):
        say(f"    [{fenced_line(call.get('name', 'tool'), 255)}] {fenced(words.text(call.get('arguments', '')))}")
    if one.get("content_cut"):
        say(f"    ... {one['content_cut']['of']:,} characters: `kgd get {one['uri']}`")


def blame(answer: Answer) -> None:
    for one in answer["ranges"]:
        earlier = "  or earlier" if one.get("earlier") else ""
        say(f"{bold(words.short(one['commit']))}  {one['at']}  {words.by(one)}{earlier}")
        for number, text in enumerate(one["text"].split("\n"), one["first"]):
            say(f"{number:>6}  {text}")
    if not answer["ranges"]:
        say("this node has no content; `kgd history` shows its changes")


def stale(answer: Answer) -> None:
    if written := answer.get("verified"):
        put(written)
    for node in answer["nodes"]:
        say(f"{bold(node['uri'])}  {node.get('summary') or node['name']}")
        _unverified(node["unverified"])
    say(answer["next"])


def _unverified(mark: Answer) -> None:
    since = f" (since {mark['since'][:10]})" if mark.get("since") else ""
    say(f"  ! unverified: {mark['reason']}{since}")
