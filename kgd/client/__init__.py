"""This room is where programs reach the daemon: the standard library only, since each start of a client pays for it."""
