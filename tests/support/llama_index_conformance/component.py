"""What every component that asks a service owes to the framework and to those who build on it.

An integration gets the checks of its kind by subclassing, say, `LLMConformance` in a test module of
its own, with a name that pytest collects, and by saying how its component is made and what its
service does:

    class TestOurLLM(LLMConformance):
        answer, secret, error = "At nine.", "key-of-the-tests", OurError

        def make(self, service, **options):
            return OurLLM(client=OurClient(self.secret, service.url), **options)

        @pytest.fixture
        def start(self):
            ...  # gives a function that starts a `Service`

Where it departs from the framework's ways on purpose, it overrides the attribute that says so.
"""

import asyncio
import copy
import gc
import pickle
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import pytest
from llama_index.core.async_utils import asyncio_run

from llama_index_conformance.recording import Recording, recorded

AT_ONCE = 20


class Service(Protocol):
    """The service that a component asks, as the checks see it."""

    @property
    def calls(self) -> int:
        """How many calls have arrived."""

    @property
    def most_at_once(self) -> int:
        """How many calls it has been busy with at the same time, at most."""


class Start(Protocol):
    """Starts a service that ends with the test."""

    def __call__(self, *, together: int = 1, refusing: bool = False) -> Service:
        """Start it.

        Args:
            together: answer only when so many calls have arrived.
            refusing: answer every call with the error that the component raises as `error`.
        """


@dataclass(frozen=True)
class Way:
    """A method of the component by which one question is asked."""

    method: str
    awaited: bool = False
    streamed: bool = False

    def __str__(self) -> str:
        return self.method


class ComponentConformance:
    """The checks that all kinds of components share."""

    ways: ClassVar[tuple[Way, ...]]
    """The methods that ask."""

    base: ClassVar[type]
    """The framework's class that the component has to be."""

    answer: ClassVar[str]
    """The text that the service answers with."""

    secret: ClassVar[str]
    """What nobody may be told: the API key that the component is made with."""

    error: ClassVar[type[Exception]]
    """What the component raises when the service refuses."""

    events: ClassVar[Mapping[str, tuple[str, ...]]]
    """For each method, the events that the dispatcher hears of one call, in their order."""

    callbacks: ClassVar[tuple[str, ...]]
    """The callbacks of one call, in their order."""

    serves_at_once: ClassVar[bool] = True
    """Whether calls of one component go out together; otherwise they go one after another."""

    @pytest.fixture
    def start(self) -> Start:
        """Starts services; to be overridden."""
        raise NotImplementedError

    def make(self, service: Any, **options: Any) -> Any:
        """Return the component, asking this service; to be overridden."""
        raise NotImplementedError

    def arguments(self, way: Way) -> list[Any]:
        """Return what a way is called with."""
        return ["When do you open?"]

    def text(self, result: Any) -> str:
        """Return the answer's text in what a way returned."""
        return str(result)

    def pieces(self, result: Any) -> Iterator[str]:
        """Return a stream's pieces."""
        raise NotImplementedError

    def apieces(self, result: Any) -> AsyncIterator[str]:
        """Return the pieces of a stream that is awaited."""
        raise NotImplementedError

    @pytest.fixture
    def _loops_of_the_framework(self) -> Iterator[None]:
        # `asyncio_run` closes its loop without ending its generators, and so without the closing
        # of connections that waits in one.
        yield
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "way" in metafunc.fixturenames:
            metafunc.parametrize("way", self.ways, ids=str)

    def ask(self, component: Any, way: Way) -> str:
        """Ask once, outside of any event loop."""
        return asyncio.run(self._aask(component, way)) if way.awaited else self._ask(component, way)

    def _ask(self, component: Any, way: Way) -> str:
        result = getattr(component, way.method)(*self.arguments(way))
        return "".join(self.pieces(result)) if way.streamed else self.text(result)

    async def _aask(self, component: Any, way: Way) -> str:
        result = await getattr(component, way.method)(*self.arguments(way))
        if way.streamed:
            return "".join([piece async for piece in self.apieces(result)])
        return self.text(result)

    def test_it_is_the_framework_s_class(self, start: Start) -> None:
        assert isinstance(self.make(start()), self.base)

    def test_one_question_is_one_call_and_gives_the_answer(self, start: Start, way: Way) -> None:
        service = start()
        assert self.ask(self.make(service), way) == self.answer
        assert service.calls == 1

    def test_one_question_is_told_of_by_one_start_and_one_end(self, start: Start, way: Way) -> None:
        heard = Recording()
        component = self.make(start(), callback_manager=heard.callback_manager())
        with recorded(heard):
            self.ask(component, way)
        assert heard.event_names == self.events[way.method]
        assert tuple(heard.callbacks) == self.callbacks

    def test_every_span_is_closed(self, start: Start, way: Way) -> None:
        with recorded(Recording()) as heard:
            self.ask(self.make(start()), way)
        assert any(f".{way.method}-" in span for span in heard.spans)
        assert set(heard.spans.values()) == {"exited"}

    def test_a_refusal_arrives_as_it_is_and_ends_what_was_begun(
        self, start: Start, way: Way
    ) -> None:
        heard, service = Recording(), start(refusing=True)
        component = self.make(service, callback_manager=heard.callback_manager())
        with recorded(heard), pytest.raises(self.error) as caught:
            self.ask(component, way)
        assert type(caught.value) is self.error
        assert service.calls == 1
        assert tuple(heard.callbacks) == self.callbacks
        assert None not in heard.spans.values()

    @pytest.mark.usefixtures("_loops_of_the_framework")
    def test_a_refusal_arrives_as_it_is_through_the_framework_s_own_loops(
        self, start: Start, way: Way
    ) -> None:
        # `asyncio_run` takes any RuntimeError for its own trouble, and speaks of "nested async".
        component = self.make(start(refusing=True))

        async def main() -> str:
            if way.awaited:
                return str(asyncio_run(self._aask(component, way)))
            return self._ask(component, way)

        with pytest.raises(self.error) as caught:
            asyncio.run(main())
        assert type(caught.value) is self.error

    @pytest.mark.usefixtures("_loops_of_the_framework")
    def test_it_is_called_inside_a_running_loop_and_from_one_loop_after_another(
        self, start: Start, way: Way
    ) -> None:
        service = start()
        component = self.make(service)

        async def main() -> str:
            if way.awaited:
                assert asyncio_run(self._aask(component, way)) == self.answer
                return await self._aask(component, way)
            return self._ask(component, way)

        for _ in range(3):
            assert asyncio.run(main()) == self.answer

    def test_calls_go_out_together_where_they_may(self, start: Start, way: Way) -> None:
        service = start(together=AT_ONCE if self.serves_at_once else 1)
        component = self.make(service)

        async def together() -> list[str]:
            return await asyncio.gather(*(self._aask(component, way) for _ in range(AT_ONCE)))

        if way.awaited:
            answers = asyncio.run(together())
        else:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                answers = list(pool.map(lambda _: self._ask(component, way), range(AT_ONCE)))
        assert answers == [self.answer] * AT_ONCE
        assert service.calls == AT_ONCE
        assert service.most_at_once == (AT_ONCE if self.serves_at_once else 1)

    @pytest.mark.parametrize(
        "duplicate",
        [copy.copy, copy.deepcopy, lambda component: pickle.loads(pickle.dumps(component))],
        ids=["copy", "deepcopy", "pickle"],
    )
    def test_a_duplicate_asks_as_well(
        self, start: Start, way: Way, duplicate: Callable[[Any], Any]
    ) -> None:
        service = start()
        component = self.make(service)
        assert self.ask(duplicate(component), way) == self.answer
        self.ask(component, way)
        assert self.ask(duplicate(component), way) == self.answer
        assert service.calls == 3

    def test_the_secret_is_told_to_nobody(self, start: Start, way: Way) -> None:
        heard = Recording()
        with recorded(heard):
            for service in (start(), start(refusing=True)):
                component = self.make(service, callback_manager=heard.callback_manager())
                try:
                    self.ask(component, way)
                except self.error as error:
                    heard.payloads.append(error)
        assert self.secret not in heard.everything()
        assert self.secret not in f"{component!r} {component} {vars(component)!r}"
