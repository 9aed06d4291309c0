"""`python -m tests.transcripts > docs/transcripts.md`; with `--warning`, the transcript of README."""

import sys
import tempfile
from pathlib import Path

from tests.transcripts.page import asked, lines, warning

with (
    tempfile.TemporaryDirectory(prefix="kgd-transcripts-", ignore_cleanup_errors=True) as place,
    asked(Path(place)) as session,
):
    print("\n".join((warning if "--warning" in sys.argv else lines)(session)))
