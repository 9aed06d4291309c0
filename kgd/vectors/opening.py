"""Creation of the chosen embedder. Libraries and models are loaded here and not before."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kgd.errors import Invalid
from kgd.vectors.choosing import Choice

if TYPE_CHECKING:
    from kgd.vectors.embedder import Embedder


def opened(choice: Choice, secret: Callable[[str], str]) -> Embedder:
    """The chosen embedder, which must not be `off`. Local models are read now; an endpoint is contacted on use.

    Args:
        secret: Returns a credential by its reference.

    Raises:
        Unavailable: A file or a library is missing.
        Invalid: The model cannot be used.
        Unauthorized: The credential does not exist.
    """
    if choice.kind == "builtin":
        from kgd.vectors.builtin import Builtin

        return Builtin.load(choice.share)
    if choice.kind == "onnx":
        from kgd.vectors.onnx import Onnx

        return Onnx.load(choice)
    if choice.kind == "fastembed":
        from kgd.vectors.onnx import Downloaded

        return Downloaded.load(choice)
    if choice.kind == "openai":
        from kgd.vectors.endpoint import Endpoint

        return Endpoint(choice, secret)
    raise Invalid("no embedder is chosen")
