"""Drawing: turns a traversal into a picture, with layout, labels and SVG.

Pages, saved pictures and agents' hosts show the same picture.
"""
