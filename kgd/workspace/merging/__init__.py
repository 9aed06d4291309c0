"""Merges of two histories: trees, files, parts of files, and names that collide."""
