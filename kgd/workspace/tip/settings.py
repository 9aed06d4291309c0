"""The settings in ``kgd.yaml`` at the tip of a workspace."""

from __future__ import annotations

from kgd.codec.settings import PATH, Settings, decode_settings, policy_in, why_too_new
from kgd.errors import Unavailable
from kgd.git.layout import Layout
from kgd.git.objects import ObjectId
from kgd.git.refs import HEAD
from kgd.git.store import ObjectStore
from kgd.model.access import Policy


def read(layout: Layout, store: ObjectStore) -> Settings:
    """The settings at the tip; if a newer kgd wrote them, only the known settings.

    Raises:
        Unavailable: The tip has no settings, or there is no tip.
        KgdError: The settings cannot be read.
    """
    tip = store.ref(HEAD)
    if tip is None:
        raise Unavailable(
            f"{HEAD} is lost, and no earlier value of it is known",
            at=str(layout.git_dir),
            next="Run `git update-ref refs/kgd/head COMMIT` there, with the newest commit of another copy.",
        )
    blob = store.entry(store.tree_of(tip), PATH)
    if blob is None:
        raise Unavailable(
            "the tip has no kgd.yaml",
            at=str(layout.git_dir),
            next="Run `git update-ref refs/kgd/head refs/kgd/head@{1}` there to go back by one step.",
        )
    return decode_settings(store.read(blob), newer=True)


def why_read_only(settings: Settings) -> str:
    """The reason why the workspace is read-only; empty if it is writable."""
    why = why_too_new(settings)
    return f"it has {why}" if why else ""


def policy_at(store: ObjectStore, tip: ObjectId, workspace: str) -> Policy:
    """The rules for writing and proposing."""
    blob = store.entry(store.tree_of(tip), PATH)
    return policy_in(store.read(blob) if blob else None, workspace)
