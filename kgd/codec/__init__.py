"""The files of a workspace: nodes as YAML and back, their paths, and limits on input."""
