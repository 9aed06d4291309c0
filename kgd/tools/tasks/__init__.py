"""This room is where the toolset `tasks` is: tasks with sections, and what is learned from them when they are done."""
