"""This file is where workspaces of others are kept as read-only clones."""

from __future__ import annotations

from kgd.errors import Unavailable


class Fetching(Unavailable):
    """A clone that is being fetched for the first time; it will be there by itself."""
