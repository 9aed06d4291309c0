"""This room is where other copies of a workspace, and workspaces of others, are reached: git remotes, hubs, clones."""
