"""This file is where the past of a node is read: what each commit changed, who wrote which line, and taking it back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kgd.errors import KgdError, NotFound
from kgd.ui.asked import Asked, Go, Handled, Page
from kgd.ui.changes import deed_of, rows
from kgd.ui.entry import Entry
from kgd.ui.pages.editing import said

COMMITS = 20


def history(asked: Asked) -> Handled:
    """The commits of a node, newest first, each with what it changed."""
    uri = asked.required("uri")
    answer = asked.call("history", uri=uri, diff=True, limit=COMMITS, cursor=asked.query.get("cursor"))
    shown = [{**commit, "title": title(commit, uri), "changes": rows(commit["diff"])} for commit in answer["commits"]]
    if not shown and not asked.query.get("cursor"):
        raise NotFound("no commit has changed this node", at=uri, next="Look whether its address is right.")
    return Page(
        "node_history.html",
        {"uri": uri, "commits": shown, "cursor": answer.get("cursor", ""), "writes": asked.may("put")},
    )


def lines(asked: Asked) -> Handled:
    """Who wrote which line of the content, and when."""
    uri = asked.required("uri")
    answer = asked.call("blame", uri=uri, cursor=asked.query.get("cursor"), budget=10_000)
    return Page("node_lines.html", {"answer": answer, "uri": uri})


def messages(asked: Asked) -> Handled:
    """A conversation in the order in which it was held, page by page."""
    uri, cursor = asked.required("uri"), asked.query.get("cursor")
    way = "messages_back" if asked.query.get("way") == "back" else "messages"
    answer = asked.call("get", uris=[uri], include=[way], budget=8_000, cursor=cursor)
    if not answer["nodes"]:
        raise NotFound("there is no such conversation", at=uri, next="Look whether its address is right.")
    (found,) = answer["nodes"]
    return Page(
        "node_messages.html",
        {"node": found, "messages": found.get("messages", []), "cursor": answer.get("cursor", ""), "way": way},
    )


def confirm_revert(asked: Asked) -> Handled:
    """What taking back a commit would do."""
    asked.form_for("put")
    return _reverting(asked)


def revert(asked: Asked) -> Handled:
    """Take back a commit, as far as it was not changed since."""
    try:
        answer = asked.call("put", **_revert(asked, asked.form.get("message", "")))
    except KgdError as error:
        return _reverting(asked, error)
    uri = asked.form.get("uri", "")
    return Go(asked.to("node/history", uri=uri) if uri else asked.to("overview"), said(answer, "Taken back"))


def _reverting(asked: Asked, refused: KgdError | None = None) -> Handled:
    commit = asked.required("commit")
    (found,) = asked.call("history", commit=commit, diff=True)["commits"]
    would: Mapping[str, Any] = {}
    if refused is None:
        try:
            would = asked.call("put", **_revert(asked, ""), dry_run=True)
        except KgdError as error:
            refused = error
    told = {
        "commit": found, "changes": rows(opposite(found["diff"])), "would": would,
        "uri": asked.query.get("uri") or asked.form.get("uri", ""), "refused": refused,
    }  # fmt: skip
    return Page("node_revert.html", told)


def _revert(asked: Asked, message: str) -> dict[str, Any]:
    changes = [{"op": "revert", "commit": asked.required("commit")}]
    return {"changes": changes, "message": " ".join(message.split()), "conflicts": "show"}


def title(commit: Mapping[str, Any], uri: str) -> str:
    """What a commit is called in the history of one node: what it says, or what it changed where it says nothing."""
    subject = str(commit["message"].partition("\n")[0])
    deed = deed_of(subject, uri)
    if subject and not subject.startswith("put "):
        return deed.capitalize() or subject
    for one in commit["diff"]:
        if one["change"] != "changed":
            return f"{one['change'].capitalize()}"
        fields = list(dict.fromkeys(name.partition("/")[0] for name in one["fields"]))
        return f"Changed {', '.join(fields)}"
    return "A change"


def opposite(diff: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What taking it back does, where nothing was changed since."""
    turned = {"created": "deleted", "deleted": "created"}
    return [
        {
            "uri": one["uri"], "change": turned.get(one["change"], one["change"]),
            "fields": {
                name: {"before": field["after"], "after": field["before"]} for name, field in one["fields"].items()
            },
        }
        for one in diff
    ]  # fmt: skip


ENTRIES = (
    Entry("node", "node/history", history),
    Entry("node", "node/lines", lines),
    Entry("node", "node/messages", messages),
    Entry("node", "node/revert", confirm_revert),
    Entry("node", "node/revert", revert, ("POST",)),
)
