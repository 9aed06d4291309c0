"""`python -m tests.transcripts > docs/transcripts.md`."""

import tempfile
from pathlib import Path

from tests.transcripts.page import lines

with tempfile.TemporaryDirectory(prefix="kgd-transcripts-", ignore_cleanup_errors=True) as place:
    print("\n".join(lines(Path(place))))
