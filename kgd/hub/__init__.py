"""The hub: a daemon that serves other machines through an HTTP API, git's smart HTTP and tokens."""
