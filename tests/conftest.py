from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

import pages
from eree.data.engine import _spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

for name in pages.LEFT_OUT:  # nor do they change what is printed in this process
    os.environ.pop(name, None)
os.environ |= {"COLUMNS": pages.WIDTH, "LC_ALL": "C.UTF-8"}

settings.register_profile(
    "eree",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize="CI" in os.environ,  # a landing must not depend on luck; at a desk it may find more
)
settings.load_profile("eree")


def pytest_configure(config: pytest.Config) -> None:
    """One cache of certificates for the run and all commands it starts; none of earlier runs."""
    if not hasattr(config, "workerinput"):  # the workers inherit it
        os.environ["EREE_CACHE"] = tempfile.mkdtemp(prefix="eree-cache-")
        config.add_cleanup(lambda: shutil.rmtree(os.environ["EREE_CACHE"], ignore_errors=True))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One real Spark for the whole run."""
    session = _spark_session("local[2]")
    for key, value in {
        "spark.sql.shuffle.partitions": "1",  # the databases of the tests are tiny
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
    }.items():
        session.conf.set(key, value)
    yield session
    session.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of Spark go to the one worker that starts it."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
