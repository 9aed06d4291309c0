"""The toolset `tasks`: tasks with sections, and the knowledge recorded when they are completed."""
