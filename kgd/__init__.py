"""kgd: a git-backed knowledge workspace daemon, and its library.

``import kgd; ws = kgd.open(".")`` is the way in for programs (docs/python.md). All that the library has is loaded when
it is asked for: the command line begins with this file too.
"""

__version__ = "0.2.0.dev0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kgd.api import *  # noqa: F403


def __getattr__(name: str) -> object:
    if not name.startswith("_"):
        import importlib

        api = importlib.import_module("kgd.api")
        if name in api.__all__:
            return getattr(api, name)
        if name in globals():  # a room that came with it, such as `kgd.errors`
            return globals()[name]
    raise AttributeError(f"module 'kgd' has no attribute '{name}'")


def __dir__() -> list[str]:
    import importlib

    return [*globals(), *importlib.import_module("kgd.api").__all__]
