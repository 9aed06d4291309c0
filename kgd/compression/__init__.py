"""Compression of a workspace: summaries, merges, prunings and marks, all of them proposals."""
