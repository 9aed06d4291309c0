"""The branch and the work tree that people see: publication, edits by hand, flushes and repair."""
