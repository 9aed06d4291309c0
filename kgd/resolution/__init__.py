"""Conflict resolution by a language model: prompts, requests, and checks of the answers."""
