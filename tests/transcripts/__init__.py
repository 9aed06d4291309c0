"""An agent's questions to a small workspace, and kgd's answers: `docs/transcripts.md`."""
