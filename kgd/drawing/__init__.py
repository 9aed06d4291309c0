"""This room is where a walk becomes a picture: where each node stands, which labels have room, and the SVG itself.

The picture of a page, the one that is saved and the one that an agent's host shows are the same.
"""
