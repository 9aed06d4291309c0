"""The branch and the work tree that users see: publication, edits by hand, flushes and repair."""
