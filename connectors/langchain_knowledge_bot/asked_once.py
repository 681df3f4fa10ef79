"""Retries and fallbacks that by default never ask twice, for every runnable of this package."""

from collections.abc import Sequence
from typing import Any, ClassVar

from langchain_core.runnables import Runnable, RunnableWithFallbacks
from langchain_core.runnables.utils import Input, Output
from typing_extensions import override

from langchain_knowledge_bot.model_errors import PassingChatError


class AskedOnce(Runnable[Input, Output]):
    """A runnable whose wrappers ask again only where the service has not acted."""

    _passing: ClassVar[tuple[type[Exception], ...]] = (PassingChatError,)
    """The errors after which it has not, and may do so later."""

    @override
    def with_retry(
        self, *, retry_if_exception_type: Any = None, **options: Any
    ) -> Runnable[Input, Output]:
        """Return this with retries, by default only of what cannot send a question twice.

        Args:
            retry_if_exception_type: the errors that are retried; by default those after which the
                service has not acted and may do so later.
            **options: `stop_after_attempt` and the others of `Runnable.with_retry`.
        """
        again = retry_if_exception_type or self._passing
        return super().with_retry(retry_if_exception_type=again, **options)

    @override
    def with_fallbacks(
        self,
        fallbacks: Sequence[Runnable[Input, Output]],
        *,
        exceptions_to_handle: Any = None,
        **options: Any,
    ) -> RunnableWithFallbacks[Input, Output]:
        """Return this with fallbacks, which by default are asked only if it was not.

        Args:
            fallbacks: what is invoked instead, the first that succeeds.
            exceptions_to_handle: the errors after which they are; by default those after which the
                service has not acted. `(Exception,)` also asks the next bot after an unknown
                outcome, so that two may have been asked.
            **options: `exception_key` of `Runnable.with_fallbacks`.
        """
        handled = exceptions_to_handle or self._passing
        return super().with_fallbacks(fallbacks, exceptions_to_handle=handled, **options)
