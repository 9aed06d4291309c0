"""Answers as text for a person. The text may change at any time; programs use `--json`."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from kgd.cli.terminal import (
    address,
    alert,
    as_text,
    bold,
    commit,
    complain,
    counted,
    counts,
    faint,
    fits,
    good,
    is_terminal,
    listed,
    markdown,
    painted,
    red,
    say,
    say_each,
    say_field,
    short,
    short_id,
    when,
    with_addresses,
)
from kgd.memories.tasks import sections_in
from kgd.model.escaping import fenced, fenced_line
from kgd.model.uri import IN_SUMMARY

Answer = dict[str, Any]
_OF_AN_IMPORT = ("imported", "vault", "orchestrator", "rule")
"""Keys of `data` by which imports and exports recognize nodes; they are of no use to a reader."""
_IN_OTHER_LINES = frozenset(
    {"uri", "type", "name", "asked", "summary", "aliases", "content", "lapsed", "proposals", "superseded_by"}
)
"""Fields of a node that are part of other lines, or are not printed."""
IN_CODE = frozenset({"file", "dir", "symbol"})
"""Schemes of nodes whose address says more than their name."""
_LEFT_OUT = {
    "max_nodes": ("nodes", "at least "),
    "budget": ("nodes", ""),
    "elsewhere": ("nodes", ""),
    "passed_nodes": ("nodes", "at least "),
    "broken_links": ("broken links", ""),
    "alternatives": ("paths", ""),
}
"""Nouns for the things that a limit of a walk leaves out, and the prefix of their count; other limits: relations."""
_OPTIONS = ("max_cost", "max_depth", "max_nodes")
"""Limits of a walk that are options."""
NOTHING_KNOWN = "Nothing is known about this."
"""The beginning of the hint in an answer without knowledge."""
HIGHEST_LIMIT = 100
"""A limit that every command accepts."""
STEPS = 5
"""Number of names shown before a node's own name in a path."""


def moved(answer: Answer) -> None:
    """Print the outcome of a move in one line instead of a new and a deleted node."""
    created, deleted = answer.get("created", []), answer.get("deleted", [])
    if any(one["facts"] for one in answer.get("moved", ())):  # otherwise only the node of a file moved
        put(answer)
        for one in answer["moved"]:
            say(f"{counted(one['facts'], 'facts')} moved from {one['path']} to {one['to']}")
        return
    if len(created) != 1 or len(deleted) != 1:
        put(answer)
        return
    put({**answer, "nodes": [], "deleted": [], "move": (deleted[0], created[0])})


def put(answer: Answer) -> None:
    if answer.get("dry_run"):
        say("dry run: nothing was written")
    elif answer.get("repeated"):
        say(f"applied before, as {commit(answer['commit'])}")
    elif answer.get("commit"):
        say(f"commit {commit(answer['commit'])}")
    else:
        say("nothing changed")
        told = [one.removesuffix("; nothing changed") for one in answer.get("warnings", ())]
        answer = {**answer, "warnings": told}
    created = set(answer.get("created", ()))
    if reverted := answer.get("reverted"):
        subject = with_addresses(reverted["message"])
        say(f"  reverts {commit(reverted['commit'])}: {subject} ({reverted['author']})", hang=4)
    for node in answer.get("nodes", ()):
        is_new = node["uri"] in created
        state = "restored" if reverted else "new"
        say(f"  {address(node['uri'])}  {good(state) if is_new else faint('version ' + str(node['version']))}")
    for uri in answer.get("deleted", ()):
        say(f"  {address(uri)}  {red('deleted')}")
    if move := answer.get("move"):
        say(f"  {address(move[0])} -> {address(move[1])}; the old URI stays as an alias", hang=4)
    for one in answer.get("similar", ()):
        say(f"  {address(one['uri'])} looks like {', '.join(map(address, one['like']))}")
    warnings(answer)


def get(answer: Answer) -> None:
    for number, node in enumerate(answer["nodes"]):
        if number:
            say()
        _node(node, answer.get("as_of"))
        _proposals(node, {one["id"]: one for one in answer.get("proposed", ())})


def _proposals(node: Answer, told: dict[str, Answer]) -> None:
    """Print the open proposals that change a node; without a description in the answer, only the id."""
    for id in node.get("proposals", ()):
        one = told.get(id)
        line = f": {one['message']}, {when(one['at'])} by {one['author']}" if one else ""
        say(f"  {faint('proposal')} {id}{line}", hang=4)
    if more := node.get("more_proposals"):
        say(f"  and {counted(more, 'more proposals')}")


def search(answer: Answer) -> None:
    say_field(answer, "absent")
    say_field(answer, "note", alert("! {}"))
    _hits(answer["hits"])
    if not answer["hits"]:
        _no_hits(answer.get("hint", ""))
        for uri in answer.get("nearest", ()):
            say(f"    nearest: {address(uri)}")
    elif limits := answer.get("hint", "").removeprefix(NOTHING_KNOWN).strip():  # not everything was searched
        say(alert(f"! {limits}"))
    if answer.get("code"):
        say(f"\n{bold('In the code')}" if is_terminal() else "in the code:")
        _hits(answer["code"])


def _no_hits(hint: str) -> None:
    if hint and not hint.startswith(NOTHING_KNOWN):  # not everything was searched, or filters exclude all hits
        say(hint)
        return
    say("nothing is known about this")
    if hint:
        say('    `kgd remember "…"` records it')
    if rest := hint.removeprefix(NOTHING_KNOWN).strip():
        say(f"    {rest}", hang=4)


def _hits(hits: list[Answer]) -> None:
    for hit in hits:
        node = hit.get("node", hit)
        summary, title = str(node.get("summary") or ""), _title(node)
        why = hit.get("why", ())
        if is_terminal():
            why = [with_addresses(one) for one in why]
            title = entry(node, "; ".join(why))
        else:
            say("  ".join(filter(None, (address(node["uri"]), title, _place(node)))))
        for text in (summary, _rest_of(hit.get("snippet") or "", summary)):
            if text and text != title:
                say(f"    {text}")
        if why and not (is_terminal() and title):
            say(f"    {faint('; '.join(why) if is_terminal() else listed(why))}")
        doubts(hit, "    ")


def doubts(node: Answer, indent: str) -> None:
    """The reason why a node is stale, and the node that supersedes it."""
    if doubt := node.get("unverified"):
        say(alert(f"{indent}! stale: {' '.join(doubt['reason'].split())}"))
    superseded(node, indent)


def superseded(node: Answer, indent: str) -> None:
    """Print the successor of a superseded node. A terminal shows its name first."""
    if found := node.get("superseded_by"):
        name = f"{_title(found)}, " if is_terminal() and found.get("name") and not repeats_address(found) else ""
        say(f"{indent}{alert('! superseded by')} {name}{address(found['uri'])}", hang=len(indent) + 2)


def _rest_of(snippet: str, summary: str) -> str:
    """The snippet. A terminal leaves out the summary in it, such as the docstring after a function's signature."""
    if not is_terminal() or not summary or summary not in snippet:
        return snippet
    rest = snippet.replace(summary, "").strip(" …").removeprefix(".").strip()
    return "" if snippet.startswith("…") else rest


def entry(node: Answer, why: str = "", indent: str = "") -> str:
    """Print the headline of a node on a terminal, and below it the address with `why`. Returns the headline.

    A node without a headline, such as a file, is printed as its `position`; the headline is then empty.
    """
    title = headline(node)
    if not title:
        say(f"{indent}{position(node)}")
        return ""
    say(f"{indent}{bold(title)}", hang=len(indent))
    say(f"    {address(node['uri'])}  {faint(why)}".rstrip(), hang=6)
    return title


def position(node: Answer) -> str:
    """A line of the code as path and line, as `kgd why` and editors take it, with the symbol's name; otherwise the
    address."""
    place, is_symbol = _place(node), node["uri"].startswith("symbol:")
    if not place:
        return address(node["uri"])
    return "  ".join(filter(None, (painted(place, "address"), _title(node) if is_symbol else "")))


def _place(node: Answer) -> str:
    """The path and line, as in `src/app.py:12`, of a symbol or file with a line; empty for other nodes."""
    if "line" not in node:
        return ""
    path = node["uri"].split("/", 3)[3]
    return f"{unquote(path.rpartition('/')[0] if node['uri'].startswith('symbol:') else path)}:{node['line']}"


def headline(node: Answer) -> str:
    """The name, or the summary if the name adds nothing; empty for files, folders and symbols of the code."""
    if node["uri"].partition(":")[0] in IN_CODE:
        return ""
    if is_telling(node):
        return _title(node)
    return str(node.get("summary") or "") or ("" if repeats_address(node) else _title(node))


def repeats_address(node: Answer) -> bool:
    """Whether the name is the end of the address. An address with escapes, as of a task, is harder to read."""
    return _title(node) == str(node["uri"]).rpartition("/")[2]


def is_telling(node: Answer) -> bool:
    """Whether a node's name adds anything to its address, its summary and its text."""
    name = _title(node)
    said = (node.get("summary") or "", node.get("text") or "")
    return not repeats_address(node) and not any(text.startswith(name.rstrip("…")) for text in said)


def traverse(answer: Answer) -> None:
    paths: dict[str, list[str]] = {}
    _costs(answer)
    for node in answer["nodes"]:
        _reached(node)
        if path := _path(node, paths):
            say(faint(f"        {path}"))
        doubts(node, "        ")
    _unreached(answer)
    _cut(answer)
    for link in answer["broken_links"]:
        seen = f"{link['reason']}, last seen {link['last_seen']}" if link.get("last_seen") else link.get("reason")
        say(red(f"   broken: {address(link['source'])} {link['type']} {address(link['target'])}{tail(seen)}"), hang=6)
    for start in answer.get("absent", ()):
        say(f"   absent: {address(start['uri'])}{tail(start['reason'])}")
    for conflict in answer.get("conflicts", ()):
        say(alert(f"   conflict: {address(conflict['uri'])}"))
    if hint := answer.get("hint"):
        say(f"   {hint['message']}")


def path(answer: Answer) -> None:
    """Print the nodes of a path, each after the relation that leads to it."""
    _costs(answer)
    for node in answer["nodes"]:
        if via := node.get("via"):
            step = f"<- {via['type']} -" if via.get("direction") else f"- {via['type']} ->"
            say(f"        {faint(_drawn(via)) if is_terminal() else step}")
        _reached(node)
    for other in answer.get("alternatives", ()):
        between = ", ".join(address(node["uri"]) for node in other["nodes"][1:-1])
        say(f"   another path, cost {other['cost']:g}: {f'through {between}' if between else 'directly'}", hang=8)
    _unreached(answer)
    _cut(answer)


def _drawn(via: Answer) -> str:
    """A relation between two nodes that are written above each other."""
    arrow = "↑" if via.get("direction") else "↓"
    weight = f" @{via['weight']:g}" if "weight" in via else ""
    return f"{arrow} {via['type']}{weight}"


def _unreached(answer: Answer) -> None:
    if types := answer.get("other_types"):
        complain(
            "the first node has no relation of the types in --edge-types",
            f"Its relations have the types {', '.join(types)}.",
        )
    elif end := answer.get("unreached"):
        say(f"no path leads to {address(end)}{' within these limits' if answer['cut'] else ''}")
        relations = f"`kgd traverse {address(end)}` shows its relations"
        say(f"    {'Raise --max-depth or --max-cost' if answer['cut'] else relations}")


def _cut(answer: Answer) -> None:
    for cut in answer["cut"]:
        what, most = _LEFT_OUT.get(cut["limit"], ("relations", ""))
        left = counted(cut["count"], f"more {what}")
        limit = f"--{cut['limit'].replace('_', '-')}" if cut["limit"] in _OPTIONS else cut["limit"]
        say(f"   cut by {limit}, first at {address(cut['at'])}: {most}{left}")


def _costs(answer: Answer) -> None:
    """Print the heading of the nodes on a terminal, where the costs would look like steps."""
    if answer["nodes"] and is_terminal():
        say(bold("  COST  NODE"))


def _reached(node: Answer) -> None:
    """Print a node with its cost. A terminal shows the summary below the address if both do not fit on a line."""
    told = node.get("summary") or _title(node)
    line = f"{node['cost']:>6.3g}  {address(node['uri'])}  {told}".rstrip()
    if is_terminal() and not fits(line):
        say(f"{node['cost']:>6.3g}  {address(node['uri'])}")
        line = f"{'':8}{told}"
    say(line, hang=8)


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


def facts(answer: Answer) -> None:
    """Print an answer of a few counts and names."""
    _rest(answer)


def _node(node: Answer, as_of: str | None = None) -> None:
    version = f"version {node['version']}" if node.get("version") else "not stored"
    kind = {"dir": "folder", "file": "file"}.get(node["uri"].partition(":")[0], node["type"])
    state = f"{kind}, {f'as of {short_id(as_of)}' if as_of else version}"
    say(f"{address(node['uri'])}  {faint(state)}")
    title = "" if is_terminal() and repeats_address(node) else _title(node)
    for told in dict.fromkeys((title, node.get("summary"))):
        if told:
            say(f"  {bold(told) if is_terminal() and told == title else told}")
    for name, value in node.items():
        if not value or name in _IN_OTHER_LINES or not isinstance(value, str | list):
            continue
        if all(isinstance(one, str) for one in value):
            say(f"  {faint(name.replace('_', ' ') + ':')} {listed(value) if isinstance(value, list) else value}")
    parts = sections_in(node.get("data", {}).get("sections"))
    hidden = ("verified", "renamed_code", *(("sections",) if parts else ()))
    if node.get("data"):
        for key, value in node["data"].items():
            if key in (_OF_AN_IMPORT if "imported" in node["data"] else ()) or key in hidden:
                continue
            if not is_terminal():
                say(f"  {key}: {as_text(value)}")
            elif key not in IN_SUMMARY:
                told = when(value) if key == "last_modified" else with_addresses(listed(value))
                say(f"  {faint(f'{key}:')} {told}", hang=4)
    for key, value in node.get("others", {}).items():
        say(f"  unknown key {key}: {as_text(value)}")
    if updated := node.get("updated"):
        by = "" if node.get("conflicts") else f" by {_author(updated['by'])}"  # the sides have several authors
        say(f"  {faint('updated')} {when(updated['at'])}{by}")
        if "verified_at" in updated:
            say(f"  {faint('verified')} {when(updated['verified_at'])} by {_author(updated['verified_by'])}")
    sections([{"title": one.title, "content": one.content} for one in parts])
    texts = [None if _says_its_fields(node) else node.get("content"), node.get("detail", {}).get("text")]
    for text in filter(None, texts):
        say()
        markdown(text.rstrip("\n"))
    if any(texts):
        say()
    for relation in _without_symbols(node):
        broken = red("  (broken link)") if relation.get("broken") else ""
        say(f"  -> {relation['type']} {address(relation['target'])}{weighed(relation['weight'])}{broken}", hang=5)
    for relation in node.get("incoming", ()):
        say(f"  <- {relation['type']} {address(relation['source'])}{weighed(relation['weight'])}", hang=5)
    for way, arrow in (("out", "~>"), ("into", "<~")):
        for uri in node.get("mentions", {}).get(way, ()):
            say(f"  {arrow} {'mentions' if way == 'out' else 'mentioned by'} {address(uri)}")
    for citation in node.get("citations", ()):
        _citation(citation)
    for message in node.get("messages", ()):
        _message(message)
    for one in node.get("history", ()):
        at = when(one["at"], one["at"][:16])
        say(
            f"  {commit(one['commit'])} {at}{',' * is_terminal()} {one['author']}: {with_addresses(one['message'])}",
            hang=4,
        )
    _alerts(node)


def _says_its_fields(node: Answer) -> bool:
    """Whether a terminal shows the content of a symbol already: its signature and its summary."""
    shown = {node.get("summary"), node.get("data", {}).get("signature")}
    is_symbol = node["uri"].startswith("symbol:") and bool(node.get("content"))
    return is_terminal() and is_symbol and all(line in shown for line in node["content"].strip().splitlines())


def _author(signed: str) -> str:
    """An author. A terminal leaves out the address, as the other lists do."""
    return signed.partition(" <")[0] if is_terminal() else signed


def _alerts(node: Answer) -> None:
    """Print the conflicts of a node, and the reasons not to rely on it."""
    for conflict in node.get("conflicts", ()):
        say(alert(f"  ! open conflict over {', '.join(conflict['fields'])}: `kgd conflicts {short(node['uri'])}`"))
        for field in conflict["fields"].values():
            for side in field["sides"] if all(_is_line(one["value"]) for one in field["sides"]) else ():
                shown = "  (shown)" if side["side"] == field.get("shown") else ""
                say(f"    {side['side']}: {side['value']}{shown}", hang=7)
    if doubt := node.get("unverified"):
        say(alert(f"  ! stale: {doubt['reason']}; `kgd stale --verify {short(node['uri'])}` after a check"))
    superseded(node, "  ")
    say_field(node, "lapsed", alert("  ! {}"))
    if invalid := node.get("invalid_file"):
        say(red(f"  ! {invalid['path']}:{invalid['line']}: {invalid['reason']} (the last good version is shown)"))


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and "\n" not in value


def sections(found: list[Answer]) -> None:
    """Print the sections of a task, each below its title."""
    for one in found:
        say(f"  {bold(one['title'])}")
        say_each(one["content"].splitlines(), "    {}")


def weighed(weight: float) -> str:
    """A weight after the target of a relation. A terminal leaves out 1, the usual one."""
    return "" if weight == 1 and is_terminal() else f" {faint(f'@{weight:g}')}"


def _without_symbols(node: Answer) -> list[Answer]:
    """The relations. A terminal shows the symbols of a file in one paragraph."""
    relations = list(node.get("relations", ()))
    inside = node["uri"].replace("file:", "symbol:", 1) + "/"
    symbols = [one["target"].removeprefix(inside) for one in relations if one["target"].startswith(inside)]
    if not is_terminal() or not symbols or not node["uri"].startswith("file:"):
        return relations
    say(f"  {faint('symbols:')} {', '.join(map(unquote, symbols))}", hang=4)
    return [one for one in relations if not one["target"].startswith(inside)]


def _citation(one: Answer) -> None:
    say(f"  cites {one['text']}: {one.get('reason') or one.get('state', 'not compared')}")
    for number, line in enumerate(one.get("code", "").splitlines(), one.get("first", 1)):
        say(f"    {number:>5}  {line}")
    if diff := one.get("diff"):
        say("    changed since:")
        say_each(diff.splitlines(), "      {}")


def _rest(answer: Answer, *but: str) -> None:
    for name, value in answer.items():
        if name in but or name == "ok" or value in (None, "", [], {}):
            continue
        say(f"{name.replace('_', ' ')}: {counts(value) if isinstance(value, dict) else listed(value)}")


def _title(node: Answer) -> str:
    """The name; empty if it only repeats the URI, as for external resources."""
    name = str(node.get("name") or "")
    return "" if name == node["uri"] else name


def tail(text: Any) -> str:
    return f": {text}" if text else ""


def warnings(answer: Answer, indent: str = "  ") -> None:
    """Print each warning once, also if several changes cause it."""
    for text in dict.fromkeys(answer.get("warnings", ())):
        say(f"{indent}{alert('!')} {with_addresses(text)}", hang=len(indent) + 2)


def more(answer: Answer, options: Answer) -> None:
    """Print how to continue, unless the answer ended at `--limit` rows. Without `--limit`, a terminal suggests
    one."""
    if answer.get("accepted") and is_terminal():  # the rest was accepted too
        return
    lists = [value for value in answer.values() if isinstance(value, list)]
    if "authors" in answer:  # of a review, whose limit counts nodes
        lists = [[node for by in answer["authors"] for node in by["nodes"]]]
    got = max(map(len, lists), default=0)
    if options.get("cursor") or options.get("limit") not in [len(one) for one in lists]:
        takes_limit = "limit" in options and options["limit"] is None and not options.get("cursor")
        is_short = is_terminal() and takes_limit and 0 < got <= HIGHEST_LIMIT / 2
        how = f"--limit {2 * got}" if is_short else f"--cursor {answer['cursor']}"
        say(f"{faint('more:')} {'repeat the command with ' if is_terminal() else ''}{how}")


def health(state: str) -> str:
    return good(state) if state == "ok" else bold(state)


def _message(one: dict[str, Any]) -> None:
    say()
    answered = f", answers {one['answers']}" if one.get("answers") else ""
    say(f"  {bold(fenced_line(one['sender'], 255))} {one.get('at', '')}  {one['uri']}{answered}")
    say_each(fenced(one["content"]).rstrip("\n").split("\n"), "    {}")
    for call in one.get("tool_calls", ()):
        say(f"    [{fenced_line(call.get('name', 'tool'), 255)}] {fenced(as_text(call.get('arguments', '')))}")
    if one.get("content_cut"):
        say(f"    ... {one['content_cut']['of']:,} characters: `kgd get {one['uri']}`")


def stale(answer: Answer) -> None:
    if written := answer.get("verified"):
        put(written)
    for node in answer["nodes"]:
        if is_terminal():
            entry(node)
        else:
            say(f"{address(node['uri'])}  {node.get('summary') or node['name']}")
        _mark(node["unverified"])
    say_field(answer, "note", alert("! {}"))
    say(answer["next"])


def _mark(mark: Answer) -> None:
    if is_terminal():
        since = f", {when(mark['since'])}" if mark.get("since") else ""
        say(alert(f"    ! {mark['reason']}{since}"))
        return
    since = f" (since {mark['since'][:10]})" if mark.get("since") else ""
    say(alert(f"  ! stale: {mark['reason']}{since}"))
