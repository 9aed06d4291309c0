"""Git repositories: objects, refs, packs, history, remotes, and the place of a workspace's repository."""

from __future__ import annotations

import re

is_revision = re.compile(r"(?:HEAD|head)(?:[~^][0-9]*)*|[0-9a-f]{7,40}").fullmatch
"""Matches a commit's id of at least seven digits, ``HEAD``, and ``HEAD~2``."""
