"""Errors: what they are, what they keep, and how they travel."""

import pickle

import pytest

from knowledge_bot import (
    APIError,
    Client,
    ConfigurationError,
    Delivery,
    KnowledgeBotError,
    RateLimitError,
    UnexpectedResponseError,
)
from knowledge_bot.adapters import require
from knowledge_bot.errors import MissingExtraError
from knowledge_bot.ingest import IncompleteIngestionError, Report
from refusals import refused


def subclasses(kind):
    for child in kind.__subclasses__():
        yield child
        yield from subclasses(child)


def test_no_error_is_one_that_frameworks_swallow_or_retry():
    for kind in subclasses(KnowledgeBotError):
        if not kind.__module__.startswith("knowledge_bot."):
            continue  # an adapter's, for whose framework it may be right
        assert not issubclass(kind, RuntimeError | OSError | TimeoutError), kind


@pytest.mark.parametrize("end", ["", ".", "?"])
def test_each_sentence_of_an_error_ends_once(end):
    error = KnowledgeBotError(f"Was it so{end}", advice=f"Look{end}", outcome=f"Done{end}")
    end = end or "."
    assert str(error) == f"Was it so{end} Look{end} Done{end}"


def test_a_configuration_error_is_a_value_error_as_well():
    assert issubclass(ConfigurationError, ValueError)
    assert ConfigurationError("x").delivery is Delivery.NOT_DELIVERED


@pytest.mark.parametrize(
    "error",
    [
        ConfigurationError("bad"),
        KnowledgeBotError("lost", delivery=Delivery.UNKNOWN),
        APIError(418, "teapot", "short and stout", "req-1", delivery=Delivery.REFUSED),
        RateLimitError(429, retry_after=7.0, delivery=Delivery.REFUSED),
        UnexpectedResponseError("odd", status_code=204, body=b"x"),
    ],
)
def test_an_error_survives_pickling_with_all_it_knows(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_an_error_of_an_ingestion_that_crossed_as_a_text_counts_nothing():
    error = IncompleteIngestionError(Report(refused=2), ["col_1"])
    again = IncompleteIngestionError(str(error))
    assert str(again) == str(error)
    assert set(error.report.counts.values()) == {0, 2}
    assert set(again.report.counts.values()) == {0}


def test_a_wrong_argument_is_named():
    client = Client("key", "https://service.test")
    with pytest.raises(ConfigurationError, match=r"^bot_id: ") as caught:
        client.send_message(bot_id="guide", content="When?")
    assert caught.value.argument == "bot_id"
    assert pickle.loads(pickle.dumps(caught.value)).argument == "bot_id"
    assert ConfigurationError("Nothing was given").argument is None
    for option in ("verify", "http_client", "timeout", "max_retries"):
        with refused(option):
            Client("key", "https://service.test", **{option: -5})


def test_a_missing_extra_is_named():
    with pytest.raises(MissingExtraError) as caught:
        require("A shelf", "furniture", "no_such_module.of_wood")
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.extra, error.name) == ("furniture", "no_such_module.of_wood")
    assert str(error) == (
        "A shelf needs the extra \"furniture\": pip install 'knowledge-bot[furniture]'"
    )
    assert isinstance(error, ModuleNotFoundError)
