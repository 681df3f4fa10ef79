"""What LlamaIndex reports of calls: dispatcher events, spans and callbacks.

The dispatcher swallows what its handlers raise, so handlers record, and tests assert afterwards.
"""

import contextlib
import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.callbacks.base_handler import BaseCallbackHandler
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.base import BaseEvent
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler


@dataclass
class Recording:
    """What was reported, in order.

    Attributes:
        events: the dispatcher's events.
        spans: the end of each span by its name, such as `LLM.chat`: None while it is open, then
            `exited`, or `dropped` after an exception.
        callbacks: `LLM start`, `LLM end` and the like; not the mark that the framework sets where
            an exception passes.
        payloads: what came with the callbacks.
    """

    events: list[BaseEvent] = field(default_factory=list)
    spans: dict[str, str | None] = field(default_factory=dict)
    callbacks: list[str] = field(default_factory=list)
    payloads: list[Any] = field(default_factory=list)

    @property
    def event_names(self) -> tuple[str, ...]:
        return tuple(event.class_name() for event in self.events)

    def callback_manager(self) -> CallbackManager:
        """A manager for the component whose callbacks are recorded."""
        return CallbackManager([_Callbacks(self)])

    def everything(self) -> str:
        """All of it as text, for a search."""
        events = [event.model_dump() for event in self.events]
        return json.dumps([events, self.payloads, list(self.spans)], default=_spelt_out)


@contextlib.contextmanager
def recorded(recording: Recording) -> Iterator[Recording]:
    """Record what the framework reports while the block runs."""
    dispatcher = get_dispatcher()
    events, spans = _Events(), _Spans()
    events._recording = spans._recording = recording
    dispatcher.add_event_handler(events)
    dispatcher.add_span_handler(spans)
    try:
        yield recording
    finally:
        dispatcher.event_handlers.remove(events)
        dispatcher.span_handlers.remove(spans)


class _Events(BaseEventHandler):
    _recording: Any = None

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        self._recording.events.append(event)


class _Spans(BaseSpanHandler[BaseSpan]):
    _recording: Any = None

    def new_span(
        self, id_: str, bound_args: inspect.BoundArguments, instance: Any = None, **kwargs: Any
    ) -> BaseSpan:
        self._recording.spans[id_] = None
        return BaseSpan(id_=id_)

    def prepare_to_exit_span(self, id_: str, *args: Any, **kwargs: Any) -> BaseSpan | None:
        self._recording.spans[id_] = "exited"
        return self.open_spans.get(id_)

    def prepare_to_drop_span(self, id_: str, *args: Any, **kwargs: Any) -> BaseSpan | None:
        self._recording.spans[id_] = "dropped"
        return self.open_spans.get(id_)


class _Callbacks(BaseCallbackHandler):
    def __init__(self, recording: Recording) -> None:
        super().__init__([], [])
        self._recording = recording

    def on_event_start(self, event_type: Any, payload: Any = None, *args: Any, **_: Any) -> str:
        self._note(f"{event_type.name} start", payload)
        return ""

    def on_event_end(self, event_type: Any, payload: Any = None, *args: Any, **_: Any) -> None:
        self._note(f"{event_type.name} end", payload)

    def start_trace(self, trace_id: str | None = None) -> None:
        pass

    def end_trace(self, trace_id: str | None = None, trace_map: Any = None) -> None:
        pass

    def _note(self, what: str, payload: Any) -> None:
        if not what.startswith("EXCEPTION"):
            self._recording.callbacks.append(what)
        self._recording.payloads.append(
            {str(key): value for key, value in payload.items()} if payload else payload
        )


def _spelt_out(value: Any) -> str:
    return f"{value!r} {value} {getattr(value, '__dict__', '')}"
