"""This room is where a workspace is made smaller: summaries, prunings and merges, all of them proposals."""
