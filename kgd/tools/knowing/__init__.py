"""This room is what must be known before something is touched: context, what to start with, what may be stale."""
