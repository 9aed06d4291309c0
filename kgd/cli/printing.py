"""This file is where answers become text for a person. It may change at any time; programs use `--json`."""

from __future__ import annotations

import sys
from typing import Any

from kgd.cli import printing_code, printing_ingest, printing_messages, words
from kgd.cli.requests import program
from kgd.cli.terminal import bold, red, say

Answer = dict[str, Any]
_OF_AN_IMPORT = ("imported", "vault", "orchestrator", "rule")
"""Keys of `data` by which an import and an export know again what they wrote; of no use to a reader."""
STEPS = 5
"""Names of a path in front of a node's own."""


def up(answer: Answer) -> None:
    init(answer)
    say()
    say("To use it from an MCP client:")
    for client, line in wiring(program()):
        say(f"  {client + ':':<13}{line}")
    say("`kgd agents install` does it for you; `kgd ui` shows the workspace in the browser.")
    if not answer.get("code_tree") and answer.get("path"):
        say(f"No code is here, so a client may start anywhere; then the arguments are: mcp -C {answer['path']}")


def init(answer: Answer) -> None:
    """What is here now, whether it was made just now or long ago."""
    id = str(answer["workspace"])
    if answer.get("dry_run"):
        say(f"would {'take up again' if answer.get('restored') else 'make'} workspace {bold(id)}")
    elif answer.get("restored"):
        say(f"workspace {bold(id)} is back: the knowledge that was kept here is taken up again")
    else:
        say(f"workspace {bold(id)} is {'made' if answer.get('created') else 'up'}")
    for name, label in (
        ("path", "files"),
        ("git_dir", "repository"),
        ("code_tree", "code tree"),
        ("adopted", "adopted"),
    ):
        if answer.get(name):
            say(f"  {label:<11}{answer[name]}")
    say(f"  {'published':<11}{', '.join(answer['published']) or 'nowhere: nothing leaves this machine'}")
    counts = answer.get("counts", {})
    if counts:
        say(f"  {'holds':<11}{words.counts(counts)}")
    warnings(answer)


def status(answer: Answer) -> None:
    daemon = answer["daemon"]
    say(f"kgd {daemon['version']}, daemon {daemon['pid']} since {daemon['since']}: {health(answer['health'])}")
    say(f"  log         {daemon['log']}")
    if daemon.get("listening"):
        say(f"  hub at      {daemon['listening']}")
    if pages := daemon.get("pages"):
        say(f"  pages at    {pages['url']}, {words.counted(pages['browsers'], 'browsers')} let in")
    if daemon.get("workspaces"):
        say(f"  workspaces  {', '.join(daemon['workspaces'])}")
    if here := answer.get("workspace"):
        say(f"workspace {bold(here['id'])} in {here['path']}")
        say(f"  tip         {here['tip'][:12]} on {here['branch']}")
    if answer.get("counts"):
        say(f"  holds       {words.counts(answer['counts'])}")
    printing_code.code(answer)
    for stage in answer["stages"]:
        age = f", {words.age(stage['age'])} ago" if "age" in stage else ""
        blocker = stage.get("blocker")
        is_told_below = f"{stage['name']}: {blocker}" in answer["degraded"]
        told = stage.get("about"), None if is_told_below else blocker
        say(f"  {stage['name']:<11} {health(stage['state'])}{age}{tail('; '.join(filter(None, told)))}")
    printing_ingest.jobs(answer)
    for sentence in answer["degraded"]:
        say(f"  ! {sentence}")
    for file in answer["invalid_files"]:
        say(red(f"  ! {file['path']}:{file['line']}: {file['reason']}"))
    broken_links(answer)
    if answer["proposals"]:
        say(f"  ! {words.counted(answer['proposals'], 'proposals')} to decide; `kgd proposals` lists what waits")
    if doubted := answer["counts"].get("unverified"):
        say(f"  ! {words.counted(doubted, 'nodes')} unverified since the code changed; `kgd stale` lists what")
    if answer["conflicts"]:
        open_now = words.counted(answer["conflicts"], "open conflicts")
        say(f"  ! {open_now}; `kgd conflicts` shows both sides of each")
    elif answer.get("next"):
        say(answer["next"])


def broken_links(answer: Answer) -> None:
    """Relations that lead nowhere, those that fit; the rest is counted."""
    links = answer.get("broken_links", ())
    for link in links:
        say(red(f"  ! broken link: {link['source']} {link['type']} {link['target']}"))
    more = answer.get("counts", {}).get("broken_links", 0) - len(links)
    if links and more > 0:
        say(f"  ! and {words.counted(more, 'broken links')} more")


def wiring(command: str) -> list[tuple[str, str]]:
    """(client, what to paste) for each client that most people use."""
    from shlex import quote

    server = f'{{"command": "{command}", "args": ["mcp"]}}'
    named = f'{{"name": "kgd", "command": "{command}", "args": ["mcp"]}}'
    return [
        ("Claude Code", f"claude mcp add kgd -- {quote(command)} mcp"),
        ("Cursor", f'in ~/.cursor/mcp.json: {{"mcpServers": {{"kgd": {server}}}}}'),
        ("VS Code", f"code --add-mcp {quote(named)}"),
        ("Codex", f"codex mcp add kgd -- {quote(command)} mcp"),
    ]


def doctor(answer: Answer) -> None:
    for check in answer["checks"]:
        say(f"{check['state']:<8} {check['name']}{tail(check['detail'])}")
        if check.get("next"):
            say(f"{'':<8} {check['next']}")


def ui(answer: Answer) -> None:
    say(answer["url"])
    if answer.get("opened"):
        say("Your browser shows it; if it does not, open this link there.")
    say(f"It lets one browser in, once, within {answer['minutes']} minutes.")
    say("There you are who your token says." if answer.get("hub") else "Over ssh, forward its port first.")


def browsers(answer: Answer) -> None:
    """Those that may look now."""
    if answer["ended"]:
        say(f"{words.counted(answer['ended'], 'browsers')} let in no longer; `kgd ui` lets one in again")
    for one in answer["browsers"]:
        who = f"  as {one['holder'] or one['token']}" if one.get("token") else ""
        say(f"{one['id']}  since {one['since']}, last seen {one['seen']}{who}{tail(one['program'])}")
    if not answer["browsers"] and not answer["ended"]:
        say("no browser was let in; `kgd ui` lets one in")


def fsck(answer: Answer) -> None:
    for one in answer["problems"]:
        say(f"{one['level']:<8} {one['path']}{tail(one['reason'])}")
        if one.get("next"):
            say(f"{'':<8} {one['next']}")
    if answer["ok"]:
        say(f"workspace {answer['workspace']} is whole")


def uninstall(answer: Answer) -> None:
    what = "would let go of" if answer.get("dry_run") else "let go of"
    say(f"{what} {words.listed(answer['workspaces']) or 'nothing'}")
    for place in answer["kept"]:
        say(f"  its knowledge is in {place}")
    for place in answer["installed"]:
        say(f"  the settings and hooks of kgd {'would go' if answer.get('dry_run') else 'are gone'} from {place}")
    for place in answer["left"]:
        say(f"  ! {place} holds files that are not part of it yet, and was left as it is")
    if answer["kept"] and not answer.get("dry_run"):
        say("  `kgd up` in the same place takes it up again")


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
        say(f"  takes back {words.short(reverted['commit'])} by {reverted['author']}, {reverted['message']}")
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
    for hit in answer["hits"]:
        node = hit.get("node", hit)
        say(f"{bold(node['uri'])}  {_title(node)}".rstrip())
        for text in (node.get("summary"), hit.get("snippet")):
            if text and text != _title(node):
                say(f"    {text}")
        if hit.get("why"):
            say(f"    {words.listed(hit['why'])}")
        if doubt := hit.get("unverified"):
            say(f"    ! unverified: {doubt['reason']}")
    if not answer["hits"]:
        say(f"nothing found{tail(answer.get('hint'))}")


def traverse(answer: Answer) -> None:
    paths: dict[str, list[str]] = {}
    for node in answer["nodes"]:
        say(f"{node['cost']:>6.3g}  {bold(node['uri'])}  {node.get('summary') or _title(node)}".rstrip())
        if path := _path(node, paths):
            say(f"        {path}")
        if doubt := node.get("unverified"):
            say(f"        ! unverified: {doubt['reason']}")
    for cut in answer["cut"]:
        say(f"   cut by {cut['limit']} at {cut['at']}: {cut['count']} or more left out")
    for link in answer["broken_links"]:
        seen = f"{link['reason']}, last seen {link['last_seen']}" if link.get("last_seen") else link.get("reason")
        say(red(f"   broken: {link['source']} {link['type']} {link['target']}{tail(seen)}"))
    for start in answer.get("absent", ()):
        say(f"   absent: {start['uri']}{tail(start['reason'])}")
    for conflict in answer.get("conflicts", ()):
        say(f"   conflict: {conflict['uri']}")
    if hint := answer.get("hint"):
        say(f"   {hint['message']}")


def _path(node: Answer, paths: dict[str, list[str]]) -> str:
    """The names that lead to a node, at most the last `STEPS`; empty next to a start. Adds its path to `paths`.

    A node of an earlier page has no path in `paths`, and the names begin with it.
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
        say("Take one over with `kgd resolve ID --take accept`, or dismiss it with `--take reject`.")
    else:
        say("no suggestions: what was read together so far may be chance, and no name recurs that is not a node")


def _suggested(one: Answer) -> str:
    if one["kind"] == "entity":
        return f"make {one['source']}: '{one['name']}'"
    if one["kind"] == "merge":
        return f"make one of {one['source']} and {one['target']}"
    now = f" @{one['now']:g}" if "now" in one else ""
    return f"{one['source']} {one['type']} {one['target']}{now} -> @{one['weight']:g}"


def review(answer: Answer) -> None:
    for by in answer["authors"]:
        through = f" through {by['client']}" if by.get("client") else ""
        say(f"{bold(words.by(by))}{through}, {words.counted(by['commits'], 'commits')}")
        diffs(by["nodes"])
    if not answer["authors"]:
        say("nothing was learned since")
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


def config(answer: Answer) -> None:
    for name in ("registry", "state", "logs", "socket"):
        say(f"{name:<11}{answer[name]}")
    if answer.get("manual"):
        say(f"{'manual':<11}{answer['manual']} (`man -l` reads it)")
    for name, value in answer["settings"].items():
        say(f"{name}: {value}")
    for id, path in answer["workspaces"].items():
        say(f"workspace {bold(id)} in {path}")


def facts(answer: Answer) -> None:
    """An answer that is a few counts and names."""
    _rest(answer)


def _node(node: Answer, as_of: str | None = None) -> None:
    version = f"version {node['version']}" if node.get("version") else "not stored"
    say(f"{bold(node['uri'])}  {node['type']}, {f'as of {words.short(as_of)}' if as_of else version}")
    for told in dict.fromkeys((_title(node), node.get("summary"))):
        if told:
            say(f"  {told}")
    if node.get("tags"):
        say(f"  tags: {', '.join(node['tags'])}")
    if node.get("data"):
        for key, value in node["data"].items():
            if key not in (_OF_AN_IMPORT if "imported" in node["data"] else ()) and key != "verified":
                say(f"  {key}: {words.text(value)}")
    if updated := node.get("updated"):
        say(f"  updated {updated['at']} by {updated['by']}")
    texts = [node.get("content"), node.get("detail", {}).get("text")]
    for text in filter(None, texts):
        say()
        say(text.rstrip("\n"))
    if any(texts):
        say()
    for relation in node.get("relations", ()):
        broken = "  (broken link: nobody has written it)" if relation.get("broken") else ""
        line = f"  -> {relation['type']} {relation['target']} @{relation['weight']:g}{broken}"
        say(red(line) if broken else line)
    for relation in node.get("incoming", ()):
        say(f"  <- {relation['type']} {relation['source']} @{relation['weight']:g}")
    for way, arrow in (("out", "~>"), ("into", "<~")):
        for uri in node.get("mentions", {}).get(way, ()):
            say(f"  {arrow} {'mentions' if way == 'out' else 'mentioned by'} {uri}")
    for message in node.get("messages", ()):
        printing_messages.message(message)
    for commit in node.get("history", ()):
        say(f"  {words.short(commit['commit'])} {commit['at'][:16]} {commit['author']}: {commit['message']}")
    for conflict in node.get("conflicts", ()):
        say(f"  ! open conflict over {', '.join(conflict['fields'])}: `kgd conflicts {node['uri']}`")
    if doubt := node.get("unverified"):
        say(f"  ! unverified: {doubt['reason']}; `kgd stale --verify {node['uri']}` once you looked")
    if invalid := node.get("invalid_file"):
        say(red(f"  ! {invalid['path']}:{invalid['line']}: {invalid['reason']} (the last good version is shown)"))


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
    """Its name; nothing where that is only the URI again, as with external resources."""
    name = str(node.get("name") or "")
    return "" if name == node["uri"] else name


def tail(text: Any) -> str:
    return f": {text}" if text else ""


def warnings(answer: Answer) -> None:
    for warning in answer.get("warnings", ()):
        say(f"  ! {warning}")


def more(answer: Answer, options: Answer) -> None:
    """How to continue. Silent after exactly as many rows as `--limit` asked for."""
    got = max((len(value) for value in answer.values() if isinstance(value, list)), default=0)
    if options.get("cursor") or got != options.get("limit"):
        say(f"more: --cursor {answer['cursor']}")


def missing(answer: Answer) -> None:
    """What was asked for and could not be had, and why, on standard error."""
    for one in answer["missing"]:
        if invalid := one.get("invalid_file"):
            said, then = f"{invalid['path']}:{invalid['line']}: {invalid['reason']}", invalid["next"]
        elif why := _UNKNOWN.get(one.get("reason", "")):
            seen = f"; last seen {one['last_seen']}" if one.get("last_seen") else ""
            said = why[0].format(workspace=one.get("workspace", ""))
            said, then = f"{said}{tail(one.get('detail'))}{seen} ({one['uri']})", why[1].format(uri=one["uri"])
        else:
            close = ", ".join(one["similar"])
            said, then = f"there is no such node ({one['uri']})", f"Did you mean {close}?" if close else ""
        sys.stderr.write(f"kgd: {said}\n" + (f"     {then}\n" if then else ""))


_UNKNOWN = {
    "not_then": ("this node is there now, and was not at that commit", "`kgd history {uri}` says since when."),
    "unreachable": ("the hub of workspace '{workspace}' does not answer", "Ask again later."),
    "forbidden": (
        "the hub of workspace '{workspace}' does not let you read this",
        "`kgd whoami` says who you are there; `kgd join` takes another token.",
    ),
    "unknown_workspace": (
        "the hub does not serve workspace '{workspace}' to you",
        "`kgd whoami` lists what it serves.",
    ),
}
"""Why a node could not be had, where more is known than that it is not there, and what to do."""


def health(state: str) -> str:
    return state if state == "ok" else bold(state)
