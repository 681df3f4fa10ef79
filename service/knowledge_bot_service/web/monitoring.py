"""Monitoring: `/healthz`, `/metrics`, and a log line for each request."""

import asyncio
import logging
import shutil
from http import HTTPStatus
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Final, get_args

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from knowledge_bot_service.config.logs import client_of, path_of
from knowledge_bot_service.store.database import DatabaseClosedError, ServiceDatabase
from knowledge_bot_service.store.sources import Status, count_sources
from knowledge_bot_service.web.gate import key_of

_log = logging.getLogger(__name__)

# In seconds. The first bucket holds what is answered from memory, the last a model's answer.
_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

# Others are counted as one, since a client may invent any number of them.
_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})

# How long a database may take to commit one row before it counts as stuck, in seconds.
_PATIENCE: Final = 3.0

# A disk with fewer bytes left is full.
_LEAST: Final = 256 * 1024


class Monitor:
    """Counters for Prometheus, which hold numbers alone, and whether it is ready."""

    def __init__(self, database: ServiceDatabase, folder: Path) -> None:
        self._database, self._folder = database, folder
        self._registry = CollectorRegistry()
        self._duration = Histogram(
            "kbot_service_request_duration_seconds",
            "From a request's first byte to the last byte of its answer.",
            ["method", "route", "status"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._questions = Counter(
            "kbot_service_questions",
            "Questions by outcome.",
            ["outcome"],
            registry=self._registry,
        )
        for outcome in ("answered", "not_found", "failed"):  # rates exist from the first one on
            self._questions.labels(outcome)
        self._sources = Gauge(
            "kbot_service_sources", "Sources by status.", ["status"], registry=self._registry
        )
        ProcessCollector(registry=self._registry)

    def on_answer(self, scope: Scope, status: int, size: int, seconds: float) -> None:
        """Count an answered request, and log a line for it."""
        method = scope["method"] if scope["method"] in _METHODS else "other"
        # The route and not the path, since clients may ask for any number of paths.
        route = getattr(scope.get("route"), "path", "other")
        self._duration.labels(method, route, str(status)).observe(seconds)
        if _log.isEnabledFor(logging.INFO):
            _log.info(
                "%s %s %s %d %.1f ms %d bytes key %s",
                client_of(scope),
                scope["method"],
                path_of(scope),
                status,
                seconds * 1000,
                size,
                key.name if (key := key_of(scope)) else "-",
            )

    def on_question(self, outcome: str) -> None:
        """Count a question by its outcome: `answered`, `not_found` or `failed`."""
        self._questions.labels(outcome).inc()

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format. It reads the database, so it blocks."""
        counts = count_sources(self._database.reader())
        for status in get_args(Status):
            self._sources.labels(status).set(counts.get(status, 0))
        return generate_latest(self._registry)

    async def health(self) -> dict[str, Any]:
        """Whether the service is ready, and for each check `fine` or a sentence."""
        problems = {"disk": self._disk_problem(), "database": await self._database_problem()}
        told = {name: problem or "fine" for name, problem in problems.items()}
        return {"ready": not any(problems.values()), **told}

    def _disk_problem(self) -> str | None:
        try:
            left = shutil.disk_usage(self._folder).free
        except OSError as error:
            return f"The data folder takes no writes: {error.strerror}."
        return None if left >= _LEAST else "The disk of the data folder is full. Make room there."

    async def _database_problem(self) -> str | None:
        try:
            async with asyncio.timeout(_PATIENCE):
                await asyncio.wrap_future(self._database.write(_touch))
        except DatabaseClosedError:
            return "The service is stopping."
        except TimeoutError:
            return f"The database has stored nothing for {_PATIENCE:g} s. The log may say why."
        except Exception as error:  # noqa: BLE001 - whatever it is, the service cannot store
            return f"The database takes no writes: {error}"
        return None


def _touch(connection: Connection) -> None:
    # An update that changes nothing is committed like any other.
    connection.execute("UPDATE collection SET public_id = public_id WHERE id = 1")


# Not part of the interface. The proxy in front of the service decides who may ask.
router = APIRouter()


@router.api_route("/healthz", methods=["GET", "HEAD"])
async def healthz(request: Request) -> Response:
    """Answer whether the service is ready: 200, or 503 with what is wrong."""
    monitor: Monitor = request.state.monitor
    report = await monitor.health()
    status = HTTPStatus.OK if report["ready"] else HTTPStatus.SERVICE_UNAVAILABLE
    return JSONResponse(report, status)


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Return the counters and gauges, for Prometheus."""
    monitor: Monitor = request.state.monitor
    return Response(await run_in_threadpool(monitor.text), media_type=CONTENT_TYPE_LATEST)
