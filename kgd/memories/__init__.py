"""Memories and tasks: keywords, sections of a task, and new memory nodes."""
