"""Suggestions: nodes for things that texts mention, and merges of duplicate nodes."""
