"""This room is where source code is read: which symbols a file defines, and what they import, call and inherit.

`kgd.symbols.extracting` reads one file and looks at nothing else; `kgd.symbols.resolving` says what the names in it
mean across files. Both are pure: equal bytes give equal answers on every machine that has the same grammars.
"""
