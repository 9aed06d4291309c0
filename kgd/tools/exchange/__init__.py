"""This room is where import and export are: what was read meets what is stored, and files are written."""
