"""This room is where the daemon's parts are put together and the daemon process begins and ends."""
