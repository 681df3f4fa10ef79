"""Steps of an ingestion pipeline that worker processes can import."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llama_index.core.schema import BaseNode, TransformComponent


class StepError(Exception):
    """What a step raises that was told to fail."""


class FailsOnce(TransformComponent):
    """Fails the first time that any process calls it with a document of this name, if there is one.

    Attributes:
        name: the `file_name` of that document.
        marker: a file that is there until it has failed.
    """

    name: str
    marker: str

    def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> Sequence[BaseNode]:
        marker = Path(self.marker)
        if marker.exists() and self.name in {node.metadata.get("file_name") for node in nodes}:
            marker.unlink()
            raise StepError(self.name)
        return nodes
