"""A chat model's errors: the client's and LangChain's at once, retryable where that is safe."""

import pickle
import traceback

import pytest
from langchain_core import exceptions as langchain

import knowledge_bot
from knowledge_bot import APIError, Client, Delivery, KnowledgeBotError
from knowledge_bot.conversations import ForkError, HeadsError
from knowledge_bot.testing import MemoryService
from langchain_knowledge_bot import ChatKnowledgeBot, model_errors
from langchain_knowledge_bot.model_errors import ChatError, as_chat_error

OURS = [
    getattr(knowledge_bot, name)
    for name in knowledge_bot.__all__
    if name.endswith("Error") and name != "KnowledgeBotError"
] + [ForkError, HeadsError]
LANGCHAINS = {
    "BadRequestError": langchain.ModelInvalidRequestError,
    "AuthenticationError": langchain.ModelAuthenticationError,
    "PermissionDeniedError": langchain.ModelPermissionDeniedError,
    "NotFoundError": langchain.ModelNotFoundError,
    "RateLimitError": langchain.ModelRateLimitError,
    "ServerError": langchain.ModelAPIError,
    "RequestTimeoutError": langchain.ModelTimeoutError,
    "ConnectionFailedError": langchain.ModelConnectionError,
    "ConnectionLostError": langchain.ModelConnectionError,
    "ConfigurationError": langchain.ModelInvalidRequestError,
    "UnsupportedError": langchain.ModelInvalidRequestError,
    "ForkError": langchain.ModelInvalidRequestError,
}
NEVER_UNKNOWN = {"ConnectionFailedError", "RateLimitError"}


def made(cls, delivery, *, may_pass=True):
    if issubclass(cls, APIError):
        error = cls(499, "code", "message", "request-1", retry_after=3.0, delivery=delivery)
    else:
        error = cls.__new__(cls, "What went wrong.")
    error.__dict__.update(delivery=delivery, may_pass=may_pass, status_code=200, body=b"x")
    return error


@pytest.mark.parametrize(
    ("cls", "delivery"),
    [
        (cls, delivery)
        for cls in OURS
        for delivery in Delivery
        if delivery is not Delivery.UNKNOWN or cls.__name__ not in NEVER_UNKNOWN
    ],
)
@pytest.mark.parametrize("may_pass", [False, True])
def test_every_error_of_the_client_is_one_of_langchains_as_well(cls, delivery, may_pass):
    error = made(cls, delivery, may_pass=may_pass)
    twin = as_chat_error(error)
    assert isinstance(twin, cls)
    assert isinstance(twin, ChatError)
    assert isinstance(twin, LANGCHAINS.get(cls.__name__, langchain.ModelError))
    assert str(twin) == str(error)
    assert vars(twin) == vars(error)
    assert isinstance(twin, RuntimeError) or delivery is not Delivery.UNKNOWN
    assert twin.is_retryable is (may_pass and delivery is not Delivery.UNKNOWN)


def test_an_error_without_a_class_of_its_own_is_reported_as_it_is():
    class NewerError(KnowledgeBotError):
        pass

    twin = as_chat_error(NewerError("New."))
    assert isinstance(twin, ChatError)
    assert (str(twin), twin.is_retryable) == ("New.", False)


def test_an_error_crosses_the_border_of_a_process():
    error = as_chat_error(made(knowledge_bot.RateLimitError, Delivery.REFUSED))
    error.add_note("Of two bots.")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert isinstance(again, model_errors.ChatRateLimitError)
    assert (str(again), again.retry_after, again.__notes__) == (str(error), 3.0, ["Of two bots."])


def test_a_traceback_has_no_line_of_the_client():
    client = Client("key", "https://service.test", transport=MemoryService().transport)
    with pytest.raises(knowledge_bot.BadRequestError) as caught:
        ChatKnowledgeBot(bot_id="bot_missing", client=client).invoke("When?")
    files = {frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)}
    assert not any("/knowledge_bot/" in file for file in files)
    client.close()
