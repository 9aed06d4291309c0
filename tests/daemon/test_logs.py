"""The log of a daemon in the foreground: complete in its file, and on standard error while it is read."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

LINES = 3_000
CHATTER = """
import logging, sys
from kgd.daemon import process
process.start_log(sys.argv[1], to_stderr=True)
for number in range(int(sys.argv[2])):
    logging.getLogger("kgd").info("a line of some length that fills the pipe", extra={"number": number})
print("done", flush=True)
sys.stdin.readline()
logging.getLogger("kgd").info("once more")
"""


def test_a_daemon_whose_standard_error_is_not_read_does_not_wait(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", CHATTER, str(log), str(LINES)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        deadline = threading.Timer(30, child.kill)
        deadline.start()
        assert child.stdout.readline() == "done\n"
        deadline.cancel()
        assert len(log.read_text().splitlines()) == LINES
        _, said = child.communicate("go on\n", timeout=20)
    shown = said.splitlines()
    assert 100 < len(shown) < LINES
    assert "number=0" in shown[0]
