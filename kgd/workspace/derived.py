"""This file is where everything that can be rebuilt is kept in step with the tip: text index, versions, snapshot.

One thread follows the writer: it is told of each flush after the callers were, so that no write waits for SQLite, and
a search waits for it, so that what was acknowledged a moment ago is found. All of it may be deleted at any time; it
then comes back from git, with the same answers.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kgd.codec import documents
from kgd.errors import KgdError, Unavailable
from kgd.git.history import versions as git_versions
from kgd.git.objects import ObjectId, trailers
from kgd.git.store import ObjectStore
from kgd.index import snapshot
from kgd.index.text import Doc, Hit, IndexDamaged, TextIndex
from kgd.index.versions import Row, VersionIndex
from kgd.model.uri import Uri
from kgd.workspace.outcome import Stage, Version
from kgd.workspace.served import Change, Served
from kgd.workspace.writer import Staged

log = logging.getLogger(__name__)
