"""This room is where a codebase is divided into areas: path patterns, what they match, and an area's changelog."""
