"""The daemon, one process per home: lock, socket, open workspaces, watches, sync threads and tokens."""
