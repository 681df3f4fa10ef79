"""Errors of asking a bot, and after which of them the framework asks again.

They are both the client's own and LangChain's `ModelError`s.

LangChain's middleware retries a call unless its error is a `ModelError` whose `is_retryable` is
False. Here it is True only if the service has not acted (`delivery`) and may do so later
(`may_pass`). LangGraph's `RetryPolicy` retries a node after any error except some of Python's own,
such as `RuntimeError`: an error after which the service may have acted is therefore a
`RuntimeError` as well.

For each error of the client there is one with `Chat` in front of its name: `ChatServerError`,
`ChatRateLimitError`; for `RequestTimeoutError` it is `ChatTimeoutError`. What is raised is also a
`PassingChatError`, an `UnknownDeliveryError`, or neither.
"""

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from langchain_core import exceptions as langchain
from langchain_core.callbacks.manager import BaseRunManager
from langchain_core.exceptions import ModelError
from langchain_core.runnables import Runnable, RunnableSerializable, RunnableWithFallbacks
from langchain_core.runnables.retry import RunnableRetry
from langchain_core.runnables.utils import Input, Output
from typing_extensions import override

import knowledge_bot
from knowledge_bot import Delivery, KnowledgeBotError
from knowledge_bot.conversations import ForkError, HeadsError


class ChatError(KnowledgeBotError, ModelError):
    """The base of the errors that a call of a chat model raises."""

    is_retryable = False


class PassingChatError(ChatError):
    """The service has not acted, and may do so if the call is repeated later."""

    is_retryable = True


class UnknownDeliveryError(ChatError, RuntimeError):
    """The service may have acted, so the question is not retried automatically."""


# LangChain's class for each error of the client; it has none for some.
_LANGCHAINS: dict[type[KnowledgeBotError], type[ModelError] | None] = {
    knowledge_bot.APIError: langchain.ModelAPIError,
    knowledge_bot.AuthenticationError: langchain.ModelAuthenticationError,
    knowledge_bot.BadRequestError: langchain.ModelInvalidRequestError,
    knowledge_bot.ConfigurationError: langchain.ModelInvalidRequestError,
    knowledge_bot.ConflictError: None,
    knowledge_bot.ConnectionFailedError: langchain.ModelConnectionError,
    knowledge_bot.ConnectionLostError: langchain.ModelConnectionError,
    ForkError: langchain.ModelInvalidRequestError,
    HeadsError: None,
    knowledge_bot.NotFoundError: langchain.ModelNotFoundError,
    knowledge_bot.PaymentRequiredError: None,
    knowledge_bot.PermissionDeniedError: langchain.ModelPermissionDeniedError,
    knowledge_bot.PreconditionFailedError: None,
    knowledge_bot.RateLimitError: langchain.ModelRateLimitError,
    knowledge_bot.RequestTimeoutError: langchain.ModelTimeoutError,
    knowledge_bot.ServerError: langchain.ModelAPIError,
    knowledge_bot.UnexpectedResponseError: langchain.ModelAPIError,
    knowledge_bot.UnsupportedError: langchain.ModelInvalidRequestError,
}

if TYPE_CHECKING:

    def __getattr__(name: str) -> type[ChatError]: ...  # those of the table


def _kind(name: str, base: type[ChatError], *bases: type[Exception], doc: str | None) -> Any:
    """Make a class, and put it where pickle looks for it: `name` of this module."""
    attributes = {"__doc__": doc, "__module__": __name__}
    made = globals()[name] = type(name, (base, *bases), attributes)
    return made


_KINDS = {
    ours: _kind(
        f"Chat{ours.__name__.removeprefix('Request')}",
        ChatError,
        ours,
        *filter(None, [theirs]),
        doc=ours.__doc__,
    )
    for ours, theirs in _LANGCHAINS.items()
}
_KINDS_BY_OUTCOME = {
    (base, kind): _kind(f"{prefix}{kind.__name__}", base, kind, doc=base.__doc__)
    for prefix, base in {"Passing": PassingChatError, "Unrepeated": UnknownDeliveryError}.items()
    for kind in _KINDS.values()
}


def as_chat_error(error: KnowledgeBotError, *, alone: bool = True) -> ChatError:
    """Return a client's error as one of LangChain's too, with the same text.

    Its traceback begins where it is raised: what a reader needs of the client's stands in the text.

    Args:
        error: what the client raised.
        alone: whether it was the only question. If not, others may have been answered, and a retry
            would ask these twice: then the error is not retryable, and a `RuntimeError`.
    """
    kind = _KINDS.get(type(error), ChatError)
    if error.delivery is Delivery.UNKNOWN or not alone:
        kind = _KINDS_BY_OUTCOME.get((UnknownDeliveryError, kind), UnknownDeliveryError)
    elif error.may_pass:
        kind = _KINDS_BY_OUTCOME.get((PassingChatError, kind), PassingChatError)
    chat_error: ChatError = kind.__new__(kind, *error.args)
    chat_error.__dict__.update(vars(error))
    return chat_error


@contextmanager
def asking(run: BaseRunManager | None, *, alone: bool = True) -> Iterator[None]:
    """Ask a bot within the block: an error is raised as `as_chat_error` makes it.

    The client's span is a child of the span that a tracer has for the run. Tracers of LangChain are
    callbacks, which cannot make their span the current one; those of OpenInference give it by
    `get_span`. Without such a tracer nothing happens.

    Args:
        run: the framework's manager of the run's callbacks.
        alone: as for `as_chat_error`.
    """
    try:
        for handler in () if run is None else run.handlers:
            get_span = getattr(handler, "get_span", None)
            span = get_span(run.run_id) if run is not None and callable(get_span) else None
            if span is not None:
                from opentelemetry import trace

                with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                    yield
                return
        yield
    except KnowledgeBotError as error:
        raise as_chat_error(error, alone=alone) from None


class AskedOnce(Runnable[Input, Output]):
    """A runnable that nobody asks again unless the service has not acted, whatever wraps it.

    What the framework wraps around it is one as well, so that retries and fallbacks keep to this in
    any order and around each other. A sequence (`prompt | bot`) is not: add them to the bot in it.
    """

    @override
    def with_retry(
        self, *, retry_if_exception_type: Any = (PassingChatError,), **options: Any
    ) -> Runnable[Input, Output]:
        """Return this with retries, by default only of what cannot send a question twice.

        Args:
            retry_if_exception_type: the errors that are retried; by default those after which the
                service has not acted and may do so later.
            **options: `stop_after_attempt` and the others of `Runnable.with_retry`.
        """
        retried: Runnable[Input, Output] = _asked_once(
            super().with_retry(retry_if_exception_type=retry_if_exception_type, **options)
        )
        return retried

    @override
    def with_fallbacks(
        self,
        fallbacks: Sequence[Runnable[Input, Output]],
        *,
        exceptions_to_handle: Any = (PassingChatError,),
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
        falling_back: RunnableWithFallbacks[Input, Output] = _asked_once(
            super().with_fallbacks(fallbacks, exceptions_to_handle=exceptions_to_handle, **options)
        )
        return falling_back


def _wrapping(name: str) -> Any:
    """Return a method that wraps as the framework's does, in what is asked once as well."""

    def wrap(self: Any, *arguments: Any, **options: Any) -> Any:
        return _asked_once(getattr(super(AskedOnce, self), name)(*arguments, **options))

    return functools.wraps(getattr(RunnableSerializable, name))(wrap)


# Whatever of a runnable returns it with something around it. They keep the framework's types.
for _name in (
    "bind",
    "configurable_alternatives",
    "configurable_fields",
    "map",
    "with_alisteners",
    "with_config",
    "with_listeners",
    "with_types",
):
    setattr(AskedOnce, _name, _wrapping(_name))


@functools.cache
def _kind_asked_once(kind: Any) -> Any:
    """Make the class of a wrapper of the framework that is asked once; it is stored as that."""
    retries = issubclass(kind, RunnableRetry)
    return type(kind)(
        f"{kind.__name__}AskedOnce",
        (AskedOnce, kind),
        {
            "__doc__": f"What is asked once, as the framework's `{kind.__name__}` wraps it.",
            "__module__": __name__,
            "__reduce_ex__": lambda self, _: (_asked_once, (kind(**dict(self)),)),
            "lc_id": classmethod(lambda _: kind.lc_id()),
            # Of several questions, one that fails for good would get another one's answer where
            # that came with a retry (langchain issue 35475): each is retried by itself.
            **({name: getattr(Runnable, name) for name in _SEVERAL} if retries else {}),
        },
    )


_SEVERAL = ("batch", "abatch")


def _asked_once(made: Any) -> Any:
    """Return a wrapper of the framework as one that is asked once."""
    kind: Any = type(made)
    return made if isinstance(made, AskedOnce) else _kind_asked_once(kind)(**dict(made))
