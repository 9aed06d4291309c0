"""This file is where answers become text for a person. It may change at any time; programs use `--json`."""

from __future__ import annotations

import sys
from typing import Any

from kgd.cli import words
from kgd.cli.requests import program
from kgd.config import wants_color

Answer = dict[str, Any]


def clean(value: Any) -> Any:
    """The same without what could move a cursor or turn a line around: stored text is anybody's."""
    if isinstance(value, str):
        if value.isprintable():
            return value
        return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in value)
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    return value


def up(answer: Answer) -> None:
    init(answer)
    _line()
    _line("To use it from an MCP client:")
    for client, line in wiring(program()):
        _line(f"  {client + ':':<13}{line}")


def init(answer: Answer) -> None:
    """What is here now, whether it was made just now or long ago."""
    id = str(answer["workspace"])
    if answer.get("dry_run"):
        _line(f"would {'take up again' if answer.get('restored') else 'make'} workspace {_bold(id)}")
    elif answer.get("restored"):
        _line(f"workspace {_bold(id)} is back: the knowledge that was kept here is taken up again")
    else:
        _line(f"workspace {_bold(id)} is {'made' if answer.get('created') else 'up'}")
    for name, label in (
        ("path", "files"),
        ("git_dir", "repository"),
        ("code_tree", "code tree"),
        ("adopted", "adopted"),
    ):
        if answer.get(name):
            _line(f"  {label:<11}{answer[name]}")
    _line(f"  {'published':<11}{', '.join(answer['published']) or 'nowhere: nothing leaves this machine'}")
    counts = answer.get("counts", {})
    if counts:
        _line(f"  {'holds':<11}{words.counts(counts)}")
    _warnings(answer)


def status(answer: Answer) -> None:
    daemon = answer["daemon"]
    _line(f"kgd {daemon['version']}, daemon {daemon['pid']} since {daemon['since']}: {_health(answer['health'])}")
    _line(f"  log         {daemon['log']}")
    if daemon.get("listening"):
        _line(f"  hub at      {daemon['listening']}")
    if daemon.get("workspaces"):
        _line(f"  workspaces  {', '.join(daemon['workspaces'])}")
    if here := answer.get("workspace"):
        _line(f"workspace {_bold(here['id'])} in {here['path']}")
        _line(f"  tip         {here['tip'][:12]} on {here['branch']}")
    if answer.get("counts"):
        _line(f"  holds       {words.counts(answer['counts'])}")
    for stage in answer["stages"]:
        age = f", {words.age(stage['age'])} ago" if "age" in stage else ""
        _line(f"  {stage['name']:<11} {_health(stage['state'])}{age}{_tail(stage.get('blocker'))}")
    for sentence in answer["degraded"]:
        _line(f"  ! {sentence}")
    for file in answer["invalid_files"]:
        _line(f"  ! {file['path']}:{file['line']}: {file['reason']}")
    if answer["proposals"]:
        _line(f"  ! {words.counted(answer['proposals'], 'proposals')} to decide; `kgd proposals` lists what waits")
    if answer["conflicts"]:
        open_now = words.counted(answer["conflicts"], "open conflicts")
        _line(f"  ! {open_now}; `kgd conflicts` shows both sides of each")
    elif answer.get("next"):
        _line(answer["next"])


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
        _line(f"{check['state']:<8} {check['name']}{_tail(check['detail'])}")
        if check.get("next"):
            _line(f"{'':<8} {check['next']}")


def fsck(answer: Answer) -> None:
    for one in answer["problems"]:
        _line(f"{one['level']:<8} {one['path']}{_tail(one['reason'])}")
        if one.get("next"):
            _line(f"{'':<8} {one['next']}")
    if answer["ok"]:
        _line(f"workspace {answer['workspace']} is whole")


def uninstall(answer: Answer) -> None:
    what = "would let go of" if answer.get("dry_run") else "let go of"
    _line(f"{what} {words.listed(answer['workspaces']) or 'nothing'}")
    for place in answer["kept"]:
        _line(f"  its knowledge is in {place}")
    for place in answer["left"]:
        _line(f"  ! {place} holds files that are not part of it yet, and was left as it is")
    if answer["kept"] and not answer.get("dry_run"):
        _line("  `kgd up` in the same place takes it up again")


def install(answer: Answer) -> None:
    dry, changed = answer.get("dry_run"), answer["changed"]
    would = dry and changed
    if answer["server"]:
        what = f"every push to {answer['git_dir']} {'would be' if would else 'is'} checked"
    else:
        what = f"plain git {'would merge' if would else 'merges'} node by node in {answer['git_dir']}"
    _line(what + ("" if changed else "; nothing had to be changed"))
    if answer["settings"]:
        _line(f"  {'settings':<11}{', '.join(sorted(answer['settings']))}")
    if answer["hooks"]:
        _line(f"  {'hooks':<11}{', '.join(answer['hooks'])}")
    if answer["chained"]:
        _line(f"  {'kept':<11}{', '.join(answer['chained'])}: what was there before is run first")
    for warning in answer["warnings"]:
        _line(f"  ! {warning}")


def uninstall_hooks(answer: Answer) -> None:
    what = "would go from" if answer.get("dry_run") else "are gone from"
    _line(f"the settings and hooks of kgd {what} {answer['git_dir']}")
    if answer["chained"]:
        _line(f"  {', '.join(answer['chained'])}: what was there before is there again")
    for warning in answer["warnings"]:
        _line(f"  ! {warning}")


def put(answer: Answer) -> None:
    if answer.get("dry_run"):
        _line("dry run: nothing was written")
    elif answer.get("repeated"):
        _line(f"applied before, as {words.short(answer['commit'])}")
    elif answer.get("commit"):
        _line(f"commit {words.short(answer['commit'])}")
    else:
        _line("nothing changed")
    created = set(answer.get("created", ()))
    if reverted := answer.get("reverted"):
        _line(f"  takes back {words.short(reverted['commit'])}, {reverted['message']}")
    for node in answer.get("nodes", ()):
        _line(f"  {node['uri']}  {'new' if node['uri'] in created else 'version ' + str(node['version'])}")
    for uri in answer.get("deleted", ()):
        _line(f"  {uri}  deleted")
    for one in answer.get("similar", ()):
        _line(f"  {one['uri']} looks like {', '.join(one['like'])}")
    _warnings(answer)


def get(answer: Answer) -> None:
    for number, node in enumerate(answer["nodes"]):
        if number:
            _line()
        _node(node, answer.get("as_of"))


def search(answer: Answer) -> None:
    for hit in answer["hits"]:
        node = hit.get("node", hit)
        _line(f"{_bold(node['uri'])}  {_title(node)}".rstrip())
        for text in (node.get("summary"), hit.get("snippet")):
            if text and text != _title(node):
                _line(f"    {text}")
        if hit.get("why"):
            _line(f"    {words.listed(hit['why'])}")
    if not answer["hits"]:
        _line("nothing found")


def traverse(answer: Answer) -> None:
    for node in answer["nodes"]:
        _line(f"{node['cost']:>6.3g}  {_bold(node['uri'])}  {node.get('summary') or _title(node)}".rstrip())
    for cut in answer["cut"]:
        _line(f"   cut by {cut['limit']} at {cut['at']}: {cut['count']} or more left out")
    for link in answer["broken_links"]:
        seen = f"{link['reason']}, last seen {link['last_seen']}" if link.get("last_seen") else link.get("reason")
        _line(f"   broken: {link['source']} {link['type']} {link['target']}{_tail(seen)}")
    for start in answer.get("absent", ()):
        _line(f"   absent: {start['uri']}{_tail(start['reason'])}")
    for conflict in answer.get("conflicts", ()):
        _line(f"   conflict: {conflict['uri']}")
    if hint := answer.get("hint"):
        _line(f"   {hint['message']}")


def history(answer: Answer) -> None:
    for number, commit in enumerate(answer["commits"]):
        if number:
            _line()
        client = f" through {commit['client']}" if commit.get("client") else ""
        _line(f"{_bold(words.short(commit['commit']))}  {commit['at']}  {commit['author']}{client}")
        for line in commit["message"].splitlines():
            _line(f"    {line}")
        for uri in commit["nodes"]:
            _line(f"    {uri}")
        if commit.get("more_nodes"):
            _line(f"    and {commit['more_nodes']} more")
        _diffs(commit.get("diff", ()))
    if not answer["commits"]:
        _line("no commits")


def log(answer: Answer) -> None:
    for commit in answer["commits"]:
        subject = commit["message"].partition("\n")[0]
        _line(f"{_bold(words.short(commit['commit']))}  {commit['at'][:16]}  {commit['author']:<16.16}  {subject}")


def diff(answer: Answer) -> None:
    _diffs(answer["diff"], indent="")
    if not answer["diff"]:
        _line("no difference")


def conflicts(answer: Answer) -> None:
    for one in answer["conflicts"]:
        _line(f"{_bold(one['uri'])}  {one['id']}")
        for name, field in one["fields"].items():
            _line(f"    {name}, base: {words.text(field.get('base'))}")
            for letter, side in zip("abcdefgh", field["sides"], strict=False):
                shown = "  (shown)" if "abcdefgh".index(letter) == field.get("shown") else ""
                _line(f"    {name}, {letter}:    {words.text(side)}{shown}")
    if not answer["conflicts"]:
        _line("no open conflicts")
    else:
        _line("Settle one with `kgd resolve ID --take a`, or with --fields.")


def proposals(answer: Answer) -> None:
    for one in answer["proposals"]:
        state = "" if one["state"] == "open" else f"  [{one['state']}]"
        _line(f"{_bold(one['id'])}  {one['author']}, {words.age(one['age'])} ago{state}")
        _line(f"    {one['message']}")
        for uri in () if "diff" in one else one["nodes"]:
            _line(f"    {uri}{'  (changed here too)' if uri in one.get('conflicts', ()) else ''}")
        if one.get("more_nodes") and "diff" not in one:
            _line(f"    and {one['more_nodes']} more")
        if one.get("why"):
            _line(f"    ! {one['why']}")
        _diffs(one.get("diff", ()))
    if not answer["proposals"]:
        _line("nothing waits")
    if answer.get("next"):
        _line(answer["next"])


def accepted(answer: Answer) -> None:
    put(answer)
    if answer["left"]:
        _line(f"{words.counted(answer['left'], 'nodes')} of {answer['proposal']} left to decide")


def rejected(answer: Answer) -> None:
    _line(f"{answer['proposal']} is rejected; it is kept as {answer['kept']}")


def submitted(answer: Answer) -> None:
    where = f"{answer['workspace']} at {answer['remote']}" if answer.get("remote") else answer["workspace"]
    what = f" as {_bold(answer['proposal'])}" if answer.get("proposal") else ""
    commit = f" ({words.short(answer['commit'])})" if answer.get("commit") else ""
    _line(f"{answer['outcome']} in {where}{what}{commit}")
    for one in answer["changes"]:
        _line(f"  {one['outcome']:<10}{one['uri']}{_tail(one.get('why'))}")
    if answer.get("why"):
        _line(f"  because {answer['why']}")
    _line(f"  {answer['look']}")
    _warnings(answer)


def review(answer: Answer) -> None:
    for by in answer["authors"]:
        through = f" through {by['client']}" if by.get("client") else ""
        _line(f"{_bold(by['author'])}{through}, {words.counted(by['commits'], 'commits')}")
        _diffs(by["nodes"])
    if not answer["authors"]:
        _line("nothing was learned since")
    if answer.get("more"):
        _line(f"and {words.counted(answer['more'], 'nodes')} more: narrow it by --path, --by or --since")
    if answer.get("accepted"):
        _line(f"reviewed up to {words.short(answer['accepted'])}")
    if answer.get("reverted"):
        put(answer["reverted"])
    if answer.get("next"):
        _line(answer["next"])


def config(answer: Answer) -> None:
    for name in ("registry", "state", "logs", "socket"):
        _line(f"{name:<11}{answer[name]}")
    for name, value in answer["settings"].items():
        _line(f"{name}: {value}")
    for id, path in answer["workspaces"].items():
        _line(f"workspace {_bold(id)} in {path}")


def joined(answer: Answer) -> None:
    _line(f"joined {_bold(answer['hub'])}")
    _holder(answer)
    if answer["registered"]:
        _line(f"registered {', '.join(answer['registered'])}")
    for one in answer["kept"]:
        _line(f"left {one['id']} as it is: {one['reason']}")
    _line(f"the token is kept as {answer['token']}")


def left(answer: Answer) -> None:
    _line(f"left {answer['hub']}: {', '.join(answer['left'])}")
    if answer["forgotten"]:
        _line("its token is forgotten here; whoever runs the hub can revoke it")


def whoami(answer: Answer) -> None:
    if answer["person"]:
        _line(f"here: {answer['person']}")
    for hub in answer["hubs"]:
        _line(_bold(hub["hub"]))
        if hub.get("problem"):
            _line(f"  {hub['problem']}")
        _holder(hub)
    if not answer["hubs"]:
        _line("no hub was joined; `kgd join URL` joins one")


def _holder(answer: Answer) -> None:
    holder = answer.get("principal")
    if holder:
        until = f", until {holder['expires']}" if holder.get("expires") else ""
        _line(f"  {holder['name']} ({holder['kind']}){until}")
        for scope in holder["scopes"]:
            _line(f"  {', '.join(scope['verbs'])} on {', '.join(scope['paths'])} of {scope['workspace']}")


def token_list(answer: Answer) -> None:
    for one in answer["tokens"]:
        scopes = "; ".join(f"{','.join(s['verbs'])} {','.join(s['paths'])} of {s['workspace']}" for s in one["scopes"])
        used = f", used {one['last_used']}" if "last_used" in one else ""
        _line(f"{one['id']}  {one['state']:<8} {one['name']}: {scopes}; until {one['expires']}{used}")
    if not answer["tokens"]:
        _line("no tokens; `kgd token mint WORKSPACE --name NAME` makes one")


def token_revoke(answer: Answer) -> None:
    _line(f"revoked {', '.join(answer['revoked'])}" if answer["revoked"] else "it was revoked already")


def token_log(answer: Answer) -> None:
    for one in answer["entries"]:
        _line(" ".join(filter(None, (one["at"], one["token"], one["action"], one.get("workspace"), one.get("detail")))))


def remotes(answer: Answer) -> None:
    """What the workspace is shared through, what moved just now, and what waits for somebody."""
    for one in answer["remotes"]:
        _line(f"{_bold(one['name'])}  {one['url']}  {one['ref']}: {_health(one['state'])}")
        moved = [f"{one[way]} {way}" for way in ("pulled", "pushed") if one.get(way)]
        if moved or "pulled" in one:
            _line(f"  {', '.join(moved) or ('nothing moved' if one['waits'] else 'nothing to do')}")
        if one.get("merged"):
            _line(f"  merged as {words.short(one['merged'])}")
        for wait in one["waits"]:
            _line(f"  ! {wait['reason']}")
            if wait.get("next"):
                _line(f"    {wait['next']}")
    if not answer["remotes"]:
        _line("shared with nobody: nothing leaves this machine")
    for warning in answer.get("warnings", ()):
        _line(f"! {warning}")
    if answer.get("next"):
        _line(answer["next"])


def facts(answer: Answer) -> None:
    """An answer that is a few counts and names."""
    _rest(answer)


def progress(done: int, total: int | None, message: str) -> None:
    """One line on standard error that is written over; the last one is wiped away."""
    bar = f"{done}/{total}" if total else f"{done}"
    sys.stderr.write(f"\r\033[K{message} {bar}" if done != total else "\r\033[K")
    sys.stderr.flush()


def _node(node: Answer, as_of: str | None = None) -> None:
    version = f"version {node['version']}" if node.get("version") else "not stored"
    _line(f"{_bold(node['uri'])}  {node['type']}, {f'as of {words.short(as_of)}' if as_of else version}")
    for told in (_title(node), node.get("summary")):
        if told:
            _line(f"  {told}")
    if node.get("tags"):
        _line(f"  tags: {', '.join(node['tags'])}")
    if node.get("data"):
        for key, value in node["data"].items():
            _line(f"  {key}: {words.text(value)}")
    if updated := node.get("updated"):
        _line(f"  updated {updated['at']} by {updated['by']}")
    if node.get("content"):
        _line()
        _line(node["content"].rstrip("\n"))
        _line()
    for relation in node.get("relations", ()):
        broken = "  (broken)" if relation.get("broken") else ""
        _line(f"  -> {relation['type']} {relation['target']} @{relation['weight']:g}{broken}")
    for relation in node.get("incoming", ()):
        _line(f"  <- {relation['type']} {relation['source']} @{relation['weight']:g}")
    for commit in node.get("history", ()):
        _line(f"  {words.short(commit['commit'])} {commit['at'][:16]} {commit['author']}: {commit['message']}")
    for conflict in node.get("conflicts", ()):
        _line(f"  ! open conflict over {', '.join(conflict['fields'])}: `kgd conflicts {node['uri']}`")
    if invalid := node.get("invalid_file"):
        _line(f"  ! {invalid['path']}:{invalid['line']}: {invalid['reason']} (the last good version is shown)")


def _diffs(changes: Any, indent: str = "    ") -> None:
    for change in changes:
        _line(f"{indent}{change['change']} {change['uri']}")
        for name, field in change["fields"].items():
            if field.get("before") not in (None, "", [], {}):
                _line(f"{indent}  - {name}: {words.text(field['before'])}")
            if field.get("after") not in (None, "", [], {}):
                _line(f"{indent}  + {name}: {words.text(field['after'])}")


def _rest(answer: Answer, *but: str) -> None:
    for name, value in answer.items():
        if name in but or name == "ok" or value in (None, "", [], {}):
            continue
        _line(f"{name.replace('_', ' ')}: {words.counts(value) if isinstance(value, dict) else words.listed(value)}")


def _title(node: Answer) -> str:
    """Its name; nothing where that is only the URI again, as with external resources."""
    name = str(node.get("name") or "")
    return "" if name == node["uri"] else name


def _tail(text: Any) -> str:
    return f": {text}" if text else ""


def _warnings(answer: Answer) -> None:
    for warning in answer.get("warnings", ()):
        _line(f"  ! {warning}")


def more(answer: Answer, options: Answer) -> None:
    """How to go on: in full for who pages; who asked for so many and got them needs no word about it."""
    got = max((len(answer[name]) for name in ("commits", "hits", "conflicts") if name in answer), default=0)
    limit = options.get("limit")
    if "limit" not in options or options.get("cursor") or (limit and got < limit):
        _line(f"more: --cursor {answer['cursor']}")
    elif not limit:
        _line("more: --limit N, or --json for a cursor")


def missing(answer: Answer) -> None:
    """What was asked for and is not there, on standard error."""
    for one in answer["missing"]:
        if invalid := one.get("invalid_file"):
            said, then = f"{invalid['path']}:{invalid['line']}: {invalid['reason']}", invalid["next"]
        else:
            close = ", ".join(one["similar"])
            said, then = f"there is no such node ({one['uri']})", f"Did you mean {close}?" if close else ""
        sys.stderr.write(f"kgd: {said}\n" + (f"     {then}\n" if then else ""))


def _health(state: str) -> str:
    return state if state == "ok" else _bold(state)


def _bold(text: str) -> str:
    return f"\033[1m{text}\033[0m" if sys.stdout.isatty() and wants_color() else text


def _line(text: str = "") -> None:
    sys.stdout.write(text + "\n")
