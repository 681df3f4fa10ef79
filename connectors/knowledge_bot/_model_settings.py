"""Settings of language models that bots do not have, and the warning about them."""

import sys
import warnings
from collections.abc import Collection, Mapping
from typing import Any, Final, TypedDict


class WithoutEffect(TypedDict, total=False):
    """What other models take and the service does not (interface section 4).

    Code that switches models keeps working, with a warning.
    """

    frequency_penalty: float | None
    logit_bias: dict[Any, Any] | None
    logprobs: bool | None
    max_completion_tokens: int | None
    max_tokens: int | None
    n: int | None
    presence_penalty: float | None
    seed: int | None
    stream: bool
    streaming: bool
    temperature: float | None
    top_k: int | None
    top_p: float | None


WITHOUT_EFFECT: Final = WithoutEffect.__optional_keys__


def with_effect(arguments: Mapping[str, Any], *, inside: Collection[str] = ()) -> dict[str, Any]:
    """Return the arguments that have an effect; warn of each other, at the line that passed it.

    That is the nearest line outside of the packages `inside`, through which a call comes.
    """
    for name in sorted(WITHOUT_EFFECT.intersection(arguments)):
        warnings.warn(
            f"{name} has no effect: the service has no such setting",
            stacklevel=level_outside(inside),
        )
    return {name: value for name, value in arguments.items() if name not in WITHOUT_EFFECT}


def level_outside(inside: Collection[str]) -> int:
    """Return the `stacklevel` with which the caller's warning names the first line outside."""
    packages = {"knowledge_bot", *inside}
    depth, frame = 1, sys._getframe(1)  # noqa: SLF001 - what `inspect.currentframe` returns
    while str(frame.f_globals.get("__name__")).partition(".")[0] in packages and frame.f_back:
        depth, frame = depth + 1, frame.f_back
    return depth
