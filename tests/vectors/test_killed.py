"""A daemon that is killed while it embeds goes on where it was; no text is embedded twice but those under way."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kgd.vectors.choosing import Choice
from tests.builders import change, upsert
from tests.vectors.conftest import Desk
from tests.vectors.models import Endpoint, answering, by_words, serving

pytestmark = pytest.mark.slow

SOON = 60.0
BATCH, TEXTS = 8, 40
CHILD = """
import sys
from pathlib import Path
from kgd.git.layout import locate
from kgd.vectors.choosing import Choice
from kgd.workspace.workspace import Workspace
ws = Workspace.open(locate(Path(sys.argv[1])), publish=False)
ws.meaning.follow(lambda: Choice.read(sys.argv[2]))
ws.meaning.catch_up(60)
"""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    yield from serving()


@pytest.mark.requirement("U6")
def test_after_a_kill_it_goes_on_where_it_was(desk: Desk, endpoint: Endpoint) -> None:
    ws = desk.open(follow=False)
    ws.submit(change(*[upsert(f"n{n:02d}", content=f"text number {n}") for n in range(TEXTS)]))
    desk.close()
    reached = threading.Event()

    def three_times(handler: Any, body: Any) -> None:
        if len(endpoint.asked) <= 3:
            answering(by_words)(handler, body)
        else:
            reached.set()
            endpoint.stopped.wait(SOON)

    endpoint.behave = three_times
    desk.choice = Choice("openai", url=endpoint.url, model="m", batch=BATCH)
    arguments = [sys.executable, "-c", CHILD, str(desk.layout.work_tree), desk.choice.written()]
    with subprocess.Popen(arguments) as child:
        assert reached.wait(SOON)
        child.send_signal(signal.SIGKILL)
    under_way = set(endpoint.asked[3][2]["input"])
    endpoint.behave = answering(by_words)
    ws = desk.open()
    assert ws.meaning.catch_up(SOON)
    assert ws.meaning.embedded == TEXTS - 3 * BATCH
    assert len(ws.meaning.nearest("text number 7", 999).hits) == TEXTS
    assert {text for text, times in Counter(endpoint.texts).items() if times > 1} == under_way
