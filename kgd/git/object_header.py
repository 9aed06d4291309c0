"""Kind and size of a stored object, by libgit2's own function.

`pygit2.Odb.read_header` (1.21) is not safe: if the base of a delta is broken, its error path writes a zero byte beyond
a buffer on the stack, at an offset of the object's size, and the process crashes.
"""

from __future__ import annotations

import ctypes
import functools
import sys

import pygit2
from pygit2 import _libgit2

_NOT_FOUND = -3
"""libgit2's ``GIT_ENOTFOUND``."""


@functools.cache
def _library() -> ctypes.PyDLL:
    """The libgit2 that pygit2's extension module is linked against.

    A call holds the interpreter's lock, as a call of pygit2 does. Without it, twelve threads read 2.5 times slower, and
    libgit2 would have to be safe where kgd's use of it never tested that.
    """
    library = ctypes.PyDLL(_libgit2.__file__)
    pointer = ctypes.c_void_p
    library.git_repository_odb.argtypes = [ctypes.POINTER(pointer), pointer]
    library.git_odb_read_header.argtypes = [
        ctypes.POINTER(ctypes.c_size_t),
        ctypes.POINTER(ctypes.c_int),
        pointer,
        ctypes.c_char_p,
    ]
    library.git_odb_free.argtypes = [pointer]
    library.git_odb_free.restype = None
    return library


def read_header(repository: pygit2.Repository, id: bytes) -> tuple[int, int]:
    """libgit2's number of the kind, and the size in bytes. The object is not inflated. Takes about 2 us.

    Raises:
        KeyError: It is missing.
        ValueError: It is broken.
    """
    library = _library()
    database, size, kind = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_int()
    address = int.from_bytes(repository._pointer, sys.byteorder)
    if library.git_repository_odb(ctypes.byref(database), address):
        raise ValueError("the repository has no object database")
    try:
        code = library.git_odb_read_header(ctypes.byref(size), ctypes.byref(kind), database, id)
    finally:
        library.git_odb_free(database)
    if code == _NOT_FOUND:
        raise KeyError(id.hex())
    if code:
        raise ValueError(f"libgit2 returned {code} for {id.hex()}")
    return kind.value, size.value
