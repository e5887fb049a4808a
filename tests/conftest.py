from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

import pages
from eree.data.spark import start_session
from selection import EVERYTHING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

for name in pages.LEFT_OUT:  # nor do they change what is printed in this process
    os.environ.pop(name, None)
os.environ |= {"COLUMNS": pages.WIDTH, "LC_ALL": "C.UTF-8"}
#: Fixtures that take long to make, each in one module or, the first, in several.
MADE_ONCE = ("spark", "many_jobs", "undisturbed", "findings", "study")

settings.register_profile(
    "eree",
    max_examples=300 if EVERYTHING else 40,
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
    # no second compiler and one collector: the queries are tiny, and so is what they compile
    os.environ["SPARK_SUBMIT_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    session = start_session("local[2]")
    for key, value in {
        "spark.sql.shuffle.partitions": "1",  # the databases of the tests are tiny
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }.items():
        session.conf.set(key, value)
    yield session
    session.stop()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """All tests of a fixture that takes long go to one worker, which makes it once."""
    for item in items:
        shared = [name for name in MADE_ONCE if name in getattr(item, "fixturenames", ())]
        if shared:
            item.add_marker(pytest.mark.xdist_group(shared[0]))
    yield
    for item in items:  # pytest-xdist 3.8 names groups where pytest 9.2 does not look any more
        named = getattr(item, "_nodeid", item.nodeid)
        if named != item.nodeid:
            item._id = type(item._id).parse(named)
