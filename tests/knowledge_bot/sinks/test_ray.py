"""The sink for Ray Data; `scripts/test-engines ray` runs this."""

import tempfile

import pytest

pytest.importorskip("ray", reason="runs in an environment of its own")

import pandas as pd
import ray
import ray.data

from knowledge_bot import ConfigurationError
from knowledge_bot.sinks.ray import KnowledgeBotDatasink
from sink_contract import OnAnEngine, SinkContract, rows_of

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def cluster():
    # A path of its own would be too long for the sockets in it.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=100 * 1024 * 1024,
            _temp_dir=folder,
        )
        yield
        ray.shutdown()


class TestDatasink(SinkContract):
    """Each part is a dataset of its own, with blocks of its own."""

    @pytest.fixture
    def write(self, cluster):
        def write(*parts, mended=False, **options):
            first, *others = [ray.data.from_items(part) for part in parts]
            sink = KnowledgeBotDatasink(**options)
            (first.union(*others) if others else first).write_datasink(sink)
            return sink.report

        return write

    def test_what_is_reported_are_the_counts_of_all_tasks(self, service, options, write):
        report = write(rows_of(0, 10), rows_of(10, 20), **options)
        assert (report.created, report.unchanged) == (20, 0)

    def test_blocks_may_be_pandas_frames_with_holes(self, service, options, cluster):
        frame = pd.DataFrame([*rows_of(0, 3), {"id": "hole", "body": float("nan")}])
        with pytest.raises(Exception, match="the row 'hole': invalid, it has no text"):
            ray.data.from_pandas(frame).write_datasink(KnowledgeBotDatasink(**options))
        assert len(service.created) == 3

    def test_an_option_that_cannot_be_used_is_reported_when_it_is_made(self, options):
        with pytest.raises(ConfigurationError, match="rate"):
            KnowledgeBotDatasink(**options, rate=0)


@pytest.mark.slow
class TestRay(OnAnEngine):
    """Ray runs a write task again whose worker died."""

    engine = "ray"
