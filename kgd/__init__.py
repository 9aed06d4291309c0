"""kgd: a git-backed knowledge workspace daemon, and its library.

``import kgd; ws = kgd.open(".")`` is the entry point for programs (docs/python.md). Everything in the library is loaded
on first use, because the command line imports this file too.
"""

__version__ = "0.2.0.dev0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kgd.api import *  # noqa: F403


def __getattr__(name: str) -> object:
    if not name.startswith("_"):
        import importlib
        import importlib.util

        if importlib.util.find_spec(f"{__name__}.{name}"):  # `from kgd import metrics` asks before it imports
            return importlib.import_module(f"{__name__}.{name}")
        api = importlib.import_module("kgd.api")
        if name in api.__all__:
            return getattr(api, name)
    raise AttributeError(f"module 'kgd' has no attribute '{name}'")


def __dir__() -> list[str]:
    import importlib

    return [*globals(), *importlib.import_module("kgd.api").__all__]
