"""This room is where the one process of a home lives: its lock, its socket, its open workspaces and their watches."""
