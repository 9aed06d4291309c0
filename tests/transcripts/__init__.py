"""The questions of an agent to a small workspace, and kgd's answers: `docs/transcripts.md`."""
