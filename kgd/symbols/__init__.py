"""This room is where source code is read: which symbols a file defines, and what they import, call and inherit."""
