"""Readers for the conversations of many programs, and the nodes of their messages."""
