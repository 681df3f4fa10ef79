"""Monitoring: `/healthz`, `/metrics`, and a log line for each request."""

import asyncio
import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import TimeoutError as NotDoneError
from http import HTTPStatus
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from knowledge_bot_service.config.logs import client_of, path_of
from knowledge_bot_service.config.storage import StorageError
from knowledge_bot_service.store.database import DatabaseClosedError, ServiceDatabase
from knowledge_bot_service.store.sources import count_sources
from knowledge_bot_service.web.gate import key_of
from knowledge_bot_service.work.worker import Workers

_log = logging.getLogger(__name__)

# In seconds. The first bucket holds what is answered from memory, the last a model's answer.
_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

# Others are counted as one, since a client may invent any number of them.
_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})

# How long a database may take to commit one row before it counts as stuck, in seconds.
_PATIENCE: Final = 3.0

# How long a report is kept, in seconds: anyone may ask for one, and each costs an fsync.
_KEPT: Final = 1.0

# What is written to test the disk: a few pages.
_PROBE: Final = b"\0" * 65_536


class Metrics:
    """Counters for Prometheus; they hold numbers only, nothing from the sources."""

    def __init__(
        self, database: ServiceDatabase, file: Path, connections: Callable[[], int]
    ) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "kbot_service_requests",
            "Requests that were answered.",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._duration = Histogram(
            "kbot_service_request_duration_seconds",
            "From a request's first byte to the last byte of its answer.",
            ["route"],
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
        self._registry.register(_Contents(database, file, connections))
        ProcessCollector(registry=self._registry)

    def on_answer(self, scope: Scope, status: int, size: int, seconds: float) -> None:
        """Count an answered request, and log a line for it."""
        method = scope["method"] if scope["method"] in _METHODS else "other"
        # The route and not the path, since clients may ask for any number of paths.
        route = getattr(scope.get("route"), "path", "other")
        self._requests.labels(method, route, str(status)).inc()
        self._duration.labels(route).observe(seconds)
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
        return generate_latest(self._registry)


class _Contents(Collector):
    """Gauges of what the service holds, read when they are asked for."""

    def __init__(
        self, database: ServiceDatabase, file: Path, connections: Callable[[], int]
    ) -> None:
        self._database, self._file, self._connections = database, file, connections

    def collect(self) -> Iterator[Metric]:
        reader = self._database.reader()
        by_status = dict.fromkeys(("pending", "processing", "ready", "failed"), 0)
        by_status.update(count_sources(reader))
        sources = GaugeMetricFamily("kbot_service_sources", "Sources by status.", labels=["status"])
        for status, count in by_status.items():
            sources.add_metric([status], count)
        yield sources
        yield GaugeMetricFamily(
            "kbot_service_queue_length",
            "Sources that are accepted and neither ready nor failed yet.",
            by_status["pending"] + by_status["processing"],
        )
        yield GaugeMetricFamily(
            "kbot_service_passages",
            "Passages that questions are answered from.",
            reader.execute("SELECT count(*) FROM passage").fetchone()[0],
        )
        log = self._file.with_name(f"{self._file.name}-wal")
        yield GaugeMetricFamily(
            "kbot_service_database_bytes",
            "Size of the database with its write-ahead log.",
            sum(file.stat().st_size for file in (self._file, log) if file.exists()),
        )
        yield GaugeMetricFamily(
            "kbot_service_disk_free_bytes",
            "Space that is left where the data folder is.",
            shutil.disk_usage(self._file.parent).free,
        )
        yield GaugeMetricFamily(
            "kbot_service_open_connections", "Connected clients.", self._connections()
        )


class Health:
    """Checks whether the service is ready: disk, database, workers."""

    def __init__(self, database: ServiceDatabase, folder: Path, workers: Workers) -> None:
        self._database, self._folder, self._workers = database, folder, workers
        self._lock = asyncio.Lock()
        self._looked_at = -_KEPT
        self._last: dict[str, Any] = {"ready": True}

    async def report(self) -> dict[str, Any]:
        """Whether the service is ready, and a sentence for each check, at most a second old."""
        async with self._lock:
            if time.monotonic() - self._looked_at > _KEPT:
                report = await run_in_threadpool(self._look)
                if not report["ready"] and self._last["ready"]:
                    told = (said for check, said in report.items() if check != "ready")
                    _log.warning("not ready: %s", "; ".join(told))
                self._looked_at, self._last = time.monotonic(), report
            return self._last

    def _look(self) -> dict[str, Any]:
        problems = {
            "disk": self._disk_problem(),
            "database": self._database_problem(),
            "workers": self._workers.problem(),
        }
        told = {name: problem or _FINE[name] for name, problem in problems.items()}
        return {"ready": not any(problems.values()), **told}

    def _disk_problem(self) -> str | None:
        try:
            with tempfile.TemporaryFile(dir=self._folder, buffering=0) as probe:
                probe.write(_PROBE)
        except OSError as error:
            return f"The data folder takes no writes: {error.strerror}. Make room there."
        return None

    def _database_problem(self) -> str | None:
        try:
            self._database.write(_touch).result(_PATIENCE)
        except DatabaseClosedError:
            return "The service is stopping."
        except NotDoneError:
            return f"The database has stored nothing for {_PATIENCE:g} s. The log may say why."
        except StorageError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the service cannot store
            return f"The database takes no writes: {error}."
        return None


_FINE: Final = {
    "disk": "The data folder takes writes.",
    "database": "The database stores and answers.",
    "workers": "The workers work.",
}


def _touch(connection: Connection) -> None:
    # An update that changes nothing is committed like any other.
    connection.execute("UPDATE collection SET public_id = public_id WHERE id = 1")


# Not part of the interface. The proxy in front of the service decides who may ask.
router = APIRouter(include_in_schema=False)


@router.api_route("/healthz", methods=["GET", "HEAD"])
async def healthz(request: Request) -> Response:
    """Answer whether the service is ready: 200, or 503 with what is wrong."""
    health: Health = request.state.health
    report = await health.report()
    status = HTTPStatus.OK if report["ready"] else HTTPStatus.SERVICE_UNAVAILABLE
    return JSONResponse(report, status)


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Return the counters and gauges, for Prometheus."""
    counted: Metrics = request.state.metrics
    return Response(await run_in_threadpool(counted.text), media_type=CONTENT_TYPE_LATEST)
