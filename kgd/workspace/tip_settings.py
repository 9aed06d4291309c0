"""This file is where it is read what ``kgd.yaml`` says at the tip of a workspace."""

from __future__ import annotations

from kgd.codec.settings import PATH, Settings, decode_settings, policy_in, why_too_new
from kgd.errors import Unavailable
from kgd.git.layout import Layout
from kgd.git.objects import ObjectId
from kgd.git.refs import HEAD
from kgd.git.store import ObjectStore
from kgd.model.access import Policy


def read(layout: Layout, store: ObjectStore) -> Settings:
    """The settings as the ref has them, those of a newer kgd as far as they are known here.

    Raises:
        Unavailable: The tip has none.
        KgdError: They cannot be read.
    """
    tip = store.ref(HEAD)
    blob = store.entry(store.tree_of(tip), PATH) if tip is not None else None
    if blob is None:
        raise Unavailable(
            "the tip has no kgd.yaml",
            at=str(layout.git_dir),
            next="There: `git update-ref refs/kgd/head refs/kgd/head@{1}` goes back by one step.",
        )
    return decode_settings(store.read(blob), newer=True)


def why_read_only(settings: Settings) -> str:
    """Why nothing is written beside these settings; empty where it may be."""
    why = why_too_new(settings)
    return f"it has {why}" if why else ""


def policy_at(store: ObjectStore, tip: ObjectId, workspace: str) -> Policy:
    """Who may write and propose where."""
    blob = store.entry(store.tree_of(tip), PATH)
    return policy_in(store.read(blob) if blob else None, workspace)
