"""This file is where a choice becomes an embedder. Libraries and models are loaded no sooner than that."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kgd.errors import Invalid
from kgd.vectors.choosing import Choice

if TYPE_CHECKING:
    from kgd.vectors.embedder import Embedder


def opened(choice: Choice, secret: Callable[[str], str]) -> Embedder:
    """The embedder that was chosen, which is not `off`; local ones are read now, an endpoint is asked when it is used.

    Args:
        secret: Looks a credential up by its reference.

    Raises:
        Unavailable: A file or a library is not there.
        Invalid: A model is not what it should be.
        Unauthorized: There is no such credential.
    """
    if choice.kind == "builtin":
        from kgd.vectors.builtin import Builtin

        return Builtin.load(choice.share)
    if choice.kind == "onnx":
        from kgd.vectors.onnx import Onnx

        return Onnx.load(choice)
    if choice.kind == "fastembed":
        from kgd.vectors.downloaded import Downloaded

        return Downloaded.load(choice)
    if choice.kind == "openai":
        from kgd.vectors.endpoint import Endpoint

        return Endpoint(choice, secret)
    raise Invalid("no embedder is chosen")
