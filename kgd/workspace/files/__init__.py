"""The files that hold parts of nodes: pages of threads and documents, and memories."""
