"""Drawing: a walk becomes a picture, with layout, labels and SVG.

Pages, saved pictures and agents' hosts show the same picture.
"""
