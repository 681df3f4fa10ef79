"""A language model behind an OpenAI-compatible endpoint (`POST {base_url}/chat/completions`)."""

import asyncio
import json
import logging
import os
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final, Self

import httpx

from knowledge_bot_service.answers.answerer import ModelFailedError
from knowledge_bot_service.config.settings import AnswersSettings, SettingsError

_log = logging.getLogger(__name__)

# How large an endpoint's answer may be, in bytes.
_MAX_ANSWER: Final = 1024 * 1024

# Most characters of an endpoint's error in the log.
_MAX_LOGGED: Final = 300

# When to ask again, in seconds: if the endpoint does not say, and at most.
_RETRY_AFTER: Final = 5
_MAX_RETRY_AFTER: Final = 120

_PASSING: Final = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
)


class LanguageModel:
    """Completes conversations. Close it in the end.

    Args:
        settings: where the endpoint is, and how long it may take.
        api_key: the key that it asks for, if any.
    """

    def __init__(self, settings: AnswersSettings, api_key: str | None) -> None:
        self._url = f"{settings.base_url.rstrip('/')}/chat/completions"
        self._model = settings.model
        self._timeout = settings.timeout
        self._api_key = api_key
        self._http = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            # The whole call has one limit of time, below: a dripping answer must end as well.
            timeout=None,  # noqa: S113
        )

    @classmethod
    def from_settings(cls, settings: AnswersSettings) -> Self:
        """Make it with the key that the settings' environment variable holds.

        Raises:
            SettingsError: the variable is not set, or holds what cannot be a key.
        """
        name = settings.api_key_env
        if name is None:
            return cls(settings, None)
        key = os.environ.get(name, "")
        if not key:
            raise SettingsError(
                f"answers.api_key_env: the environment variable {name} is not set; it must hold "
                f"the key for {settings.base_url}"
            )
        if not all("!" <= character <= "~" for character in key):
            raise SettingsError(
                f"answers.api_key_env: the environment variable {name} must hold a key of visible "
                "ASCII characters"
            )
        return cls(settings, key)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def complete(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The model's reply to a conversation: text, and not blank.

        Args:
            messages: `role` and `content` of each, oldest first.

        Raises:
            ModelFailedError: it cannot be reached, is overloaded or took too long; or it refused
                the request, or sent no chat completion, which asking again does not change.
        """
        try:
            async with (
                asyncio.timeout(self._timeout),
                self._http.stream(
                    "POST", self._url, json={"model": self._model, "messages": messages}
                ) as response,
            ):
                body = await self._read(response)
        except TimeoutError:
            raise self._failure(
                f"did not answer within {self._timeout:g} s", retry_after=_RETRY_AFTER
            ) from None
        except httpx.TransportError as error:
            raise self._failure(
                "could not be reached", f"{type(error).__name__}: {error}", _RETRY_AFTER
            ) from None
        except httpx.HTTPError as error:
            raise self._failure(
                "sent an answer that cannot be read", type(error).__name__
            ) from None
        if response.is_success:
            return self._reply_in(body)
        detail = body.decode("utf-8", "replace")
        if response.is_server_error or response.status_code in _PASSING:
            retry_after = _retry_after(response.headers)
            raise self._failure(f"answered {response.status_code}", detail, retry_after) from None
        raise self._failure(f"answered {response.status_code}", detail) from None

    async def _read(self, response: httpx.Response) -> bytes:
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > _MAX_ANSWER:
                raise self._failure(f"sent an answer of more than {_MAX_ANSWER:,} bytes") from None
        return bytes(body)

    def _reply_in(self, body: bytes) -> str:
        try:
            reply = json.loads(body)["choices"][0]["message"]["content"]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise self._failure(
                "sent an answer that is not a chat completion", body.decode("utf-8", "replace")
            ) from None
        if not isinstance(reply, str) or not reply.strip():
            raise self._failure(
                "sent an answer without text", body.decode("utf-8", "replace")
            ) from None
        return reply

    def _failure(
        self, what: str, detail: str = "", retry_after: int | None = None
    ) -> ModelFailedError:
        # The detail is for whoever runs the service, not for everybody who asks. An endpoint may
        # repeat the key that it refuses.
        if self._api_key:
            detail = detail.replace(self._api_key, "…")
        _log.warning(
            "the language model %s at %s %s: %r", self._model, self._url, what, detail[:_MAX_LOGGED]
        )
        return ModelFailedError(f"The language model {what}.", retry_after)


def _retry_after(headers: httpx.Headers) -> int:
    given = headers.get("Retry-After", "")
    if not (given.isascii() and given.isdigit()):
        return _RETRY_AFTER
    # Python refuses to read a number of thousands of digits.
    return min(int(given[:9]), _MAX_RETRY_AFTER)
