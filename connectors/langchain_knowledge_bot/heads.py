"""Which message list gets the next turn, where several continue from the same answer."""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from knowledge_bot import ConfigurationError, Delivery, Message
from langchain_knowledge_bot.conversations import History, OnFork, Outgoing, Turn, anew, continued

# A process that serves people for weeks must not remember every conversation for ever. What is
# forgotten is believed as the message list tells it.
_REMEMBERED = 10_000


@dataclass(slots=True)
class Exchange:
    """A message on its way, and the answer once there is one."""

    outgoing: Outgoing
    answer: Message | None = None


@dataclass(frozen=True, slots=True)
class _Sent:
    """A message without an answer: it is awaited, or lost."""

    content: str
    lost: bool = False


Thread: TypeAlias = tuple[str, str]
"""A service's address and the id of a conversation there."""

Head: TypeAlias = str | _Sent | None
"""The id of a conversation's last answer, or the message that was sent after it."""


class Heads:
    """The last answer of each conversation, as far as this process knows.

    Nobody can ask the service for it. Knowing it, of several lists that continue from the same
    answer one alone gets the conversation, and a message whose answer was lost is not sent into it
    again. May be shared between threads.

    Args:
        remembered: how many conversations; the one that was longest silent is forgotten first.
    """

    def __init__(self, remembered: int = _REMEMBERED) -> None:
        self._heads: OrderedDict[Thread, Head] = OrderedDict()
        self._remembered = remembered
        self._lock = threading.Lock()

    @contextmanager
    def exchange(
        self,
        service: str,
        turns: Sequence[Turn],
        *,
        history: History,
        on_fork: OnFork,
        named: str | None = None,
        default: str | None = None,
    ) -> Iterator[Exchange]:
        """Give what is to be sent, and learn from what comes of it.

        Inside the block the message is sent, and the answer put into the exchange.

        Args:
            service: the service's address.
            turns: the list of messages.
            history: what is sent of more than a person's messages.
            on_fork: where a list goes whose conversation has gone on without it.
            named: a conversation that the caller names.
            default: the conversation of a list without an answer of the bot.

        Raises:
            ConfigurationError: there is nothing that can be sent, or nowhere to.
        """
        outgoing = continued(turns, history, named=named, default=default)
        if outgoing.after is not None and not self._claim(service, outgoing):
            if on_fork == "error":
                raise ConfigurationError(
                    f"messages: {outgoing.conversation_id} has gone on since the bot's last answer "
                    'in this list. Give the whole list, or set on_fork="new" to send it into a new '
                    "conversation. Nothing was sent"
                )
            if on_fork == "new":
                outgoing = anew(turns, history)
            else:
                outgoing = Outgoing(outgoing.content, outgoing.conversation_id)
        before = outgoing.after.message_id if outgoing.after else self._join(service, outgoing)
        exchange = Exchange(outgoing)
        try:
            yield exchange
        except BaseException as error:
            unknown = getattr(error, "delivery", Delivery.UNKNOWN) is Delivery.UNKNOWN
            head = _Sent(outgoing.content, lost=True) if unknown else before
            self._settle(service, outgoing.conversation_id, head)
            raise
        if exchange.answer is not None:
            self._settle(service, exchange.answer.conversation_id, exchange.answer.id)

    def _claim(self, service: str, outgoing: Outgoing) -> bool:
        """Take the turn after an answer; False where the conversation has gone on from it."""
        assert outgoing.conversation_id is not None  # noqa: S101 - it follows an answer
        assert outgoing.after is not None  # noqa: S101 - likewise
        thread, after = (service, outgoing.conversation_id), outgoing.after.message_id
        with self._lock:
            if self._heads.get(thread, after) != after:
                return False
            self._set(thread, _Sent(outgoing.content))
            return True

    def _join(self, service: str, outgoing: Outgoing) -> Head:
        """Take the next turn whatever came before, and return what did."""
        if outgoing.conversation_id is None:
            return None
        thread = (service, outgoing.conversation_id)
        with self._lock:
            before = self._heads.get(thread)
            if before == _Sent(outgoing.content, lost=True):
                raise ConfigurationError(
                    "messages: this very message was sent into the conversation before, and no "
                    "answer came; the service may have received it, so it is not sent there again. "
                    "Send it without the conversation's id, or something else first"
                )
            self._set(thread, _Sent(outgoing.content))
            return before

    def _settle(self, service: str, conversation_id: str | None, head: Head) -> None:
        if conversation_id is not None:
            with self._lock:
                self._set((service, conversation_id), head)

    def _set(self, thread: Thread, head: Head) -> None:
        if head is None:
            self._heads.pop(thread, None)
            return
        self._heads[thread] = head
        self._heads.move_to_end(thread)
        if len(self._heads) > self._remembered:
            self._heads.popitem(last=False)
