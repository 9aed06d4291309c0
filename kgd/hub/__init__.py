"""This room is where a daemon serves other machines: HTTP API, git's smart HTTP, tokens at the door."""
