"""The sink for Spark; `scripts/test-engines spark` runs this."""

import functools
import os
import sys

import pytest

pytest.importorskip("pyspark", reason="runs in an environment of its own")

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from calls import KEY
from knowledge_bot.sinks.spark import KnowledgeBotDataSource
from sink_contract import OnAnEngine, SinkContract, rows_of

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    folder = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    session.dataSource.register(KnowledgeBotDataSource)
    yield session
    session.stop()


class TestDataSource(SinkContract):
    """Each part is a frame of its own; frames are put together by the names of their columns."""

    failure = PySparkException

    @pytest.fixture
    def write(self, session, service):
        def write(*parts, mended=False, mode="append", **options):
            frames = [session.createDataFrame(part, _schema(part)) for part in parts]
            union = functools.partial(_union, allowMissingColumns=True)
            given = {**options, "collections": ",".join(options["collections"])}
            if given.pop("client", None) is not None:
                given |= {"base_url": service.url, "api_key": KEY}
            writing = functools.reduce(union, frames).write.format("knowledge_bot").mode(mode)
            writing.options(**given).save()

        return write

    def test_what_would_be_overwritten_is_refused(self, service, options, write):
        with pytest.raises(PySparkException, match="ConfigurationError: mode: "):
            write(rows_of(0, 5), mode="overwrite", **options)
        assert service.created == []

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"colour": "red"}, "there is no such option"),
            ({"rate": "fast"}, "expected a number"),
            ({"ledger_wait": "-1"}, "ledger_wait: expected"),
            ({"rate": "0"}, "rate: expected"),
            ({"on_unknown": "skip"}, "on_unknown: expected"),
        ],
    )
    def test_an_option_that_cannot_be_used_is_reported(self, service, options, write, given, said):
        with pytest.raises(PySparkException, match=said):
            write(rows_of(0, 5), **options, **given)
        assert service.created == []

    def test_an_option_that_is_missing_is_reported(self, session):
        frame = session.createDataFrame(rows_of(0, 1), "id string, body string")
        with pytest.raises(PySparkException, match=r"'collections'.* is missing"):
            frame.write.format("knowledge_bot").mode("append").save()


def _schema(part):
    names = dict.fromkeys(name for row in part for name in row)
    return ", ".join(f"{name} string" for name in names)


def _union(one, other, **options):
    return one.unionByName(other, **options)


@pytest.mark.slow
class TestSpark(OnAnEngine):
    """Spark runs a task again whose worker died."""

    engine = "spark"
