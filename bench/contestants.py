"""The contestants: `python -m bench.contestants NAME FOLDER BY…` runs one, prints a JSON line."""

from __future__ import annotations

import json
import pickle
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow  # noqa: F401  # imported for every contestant, so that none pays for it

#: The marginals of a year of workplace area characteristics (LODES WAC).
WAC = ("age", "earnings", "race", "ethnicity", "education", "sex")
WORKPLACE = ("state", "county", "place", "tract", "sector", "ownership")


def ours(folder: Path, by: list[str], memory_limit: str | None = None) -> Callable[[], int]:
    from dataclasses import replace

    import eree

    tables = pickle.loads((folder / ".bench-tables.pickle").read_bytes())
    if memory_limit:
        tables = replace(tables, memory_limit=memory_limit)
    tabulate = eree.tabulate  # imported before the clock starts
    return lambda: len(tabulate(tables, by))


def ours_within(limit: str) -> Callable[[Path, list[str]], Callable[[], int]]:
    return lambda folder, by: ours(folder, by, limit)


def handwritten(folder: Path, by: list[str]) -> Callable[[], int]:
    """The SQL that anyone would write: join everything, count."""
    join = "" if set(by) <= set(WORKPLACE) else f"join '{folder}/worker.parquet' using (worker_id)"
    sql = f"""select {", ".join(by)}, count(*) from '{folder}/job.parquet'
        join '{folder}/workplace.parquet' using (workplace_id) {join} group by all"""

    def go() -> int:
        with duckdb.connect() as connection:
            return len(connection.sql(sql).to_arrow_table())

    return go


def handwritten_same(folder: Path, by: list[str]) -> Callable[[], int]:
    """Hand-written SQL with the largest workplace and the number of workplaces as well."""
    join = "" if set(by) <= set(WORKPLACE) else f"join '{folder}/worker.parquet' using (worker_id)"
    keys = ", ".join(by)
    sql = f"""select {keys}, sum(n), max(n), count(*) from
        (select {keys}, workplace_id, count(*) as n from '{folder}/job.parquet'
         join '{folder}/workplace.parquet' using (workplace_id) {join} group by all) group by all"""

    def go() -> int:
        with duckdb.connect() as connection:
            return len(connection.sql(sql).to_arrow_table())

    return go


def reading(folder: Path, by: list[str]) -> Callable[[], int]:
    """The needed Parquet columns, decoded by DuckDB and thrown away."""
    places = [name for name in by if name in WORKPLACE]
    people = [name for name in by if name not in WORKPLACE]
    lengths = ", ".join(f"sum(length({name}))" for name in places)
    texts = [f"select sum(workplace_id), {lengths} from '{folder}/workplace.parquet'"]
    if people:
        lengths = ", ".join(f"sum(length({name}))" for name in people)
        texts.append(f"select sum(worker_id), sum(workplace_id) from '{folder}/job.parquet'")
        texts.append(f"select sum(worker_id), {lengths} from '{folder}/worker.parquet'")
    else:
        texts.append(f"select sum(workplace_id) from '{folder}/job.parquet'")

    def go() -> int:
        with duckdb.connect() as connection:
            return sum(len(connection.sql(text).to_arrow_table()) for text in texts)

    return go


def polars(folder: Path, by: list[str]) -> Callable[[], int]:
    import polars as pl

    jobs = pl.scan_parquet(folder / "job.parquet")
    frame = jobs.join(pl.scan_parquet(folder / "workplace.parquet"), on="workplace_id")
    if not set(by) <= set(WORKPLACE):
        frame = frame.join(pl.scan_parquet(folder / "worker.parquet"), on="worker_id")
    counted = frame.group_by(by).agg(pl.len())
    return lambda: len(counted.collect(engine="streaming"))


def counting(folder: Path, by: list[str]) -> Callable[[], int]:
    """The cells alone, batch by batch, as a release reads them."""
    from eree.data.tabulate import stream
    from eree.workload import Marginal

    tables = pickle.loads((folder / ".bench-tables.pickle").read_bytes())
    wanted = Marginal.over(tables.schema, by)
    return lambda: sum(len(cells) for cells in stream(tables, wanted))


def releasing(folder: Path, by: list[str]) -> Callable[[], int]:
    """A whole release: paid from a ledger, counted, hidden, written, on disk, settled."""
    import eree

    tables = pickle.loads((folder / ".bench-tables.pickle").read_bytes())
    home = tempfile.TemporaryDirectory(dir=folder)
    plan = eree.Plan.of(
        {
            "data": str(folder.resolve()),
            "privacy": {"neighbours": "strong", "alpha": "0.1", "epsilon": "2"},
            "table": [{"name": "table", "by": by, "epsilon": "2"}],
        }
    )
    ledger = eree.Ledger.create(Path(home.name) / "ledger.db", plan.total, data_set="data")
    publish, out = eree.publish, Path(home.name) / "out"

    def go() -> int:
        release = publish(plan, tables, ledger=ledger, out=out)
        rows: int = release.about("table")["rows"]
        _ = home  # the folder lives as long as this does
        return rows

    return go


def one_by_one(folder: Path, by: list[str]) -> Callable[[], int]:
    """The cells of the marginals of a WAC year, each as a table of its own."""
    from eree.data.tabulate import stream
    from eree.workload import Marginal

    tables = pickle.loads((folder / ".bench-tables.pickle").read_bytes())
    wanted = [Marginal.over(tables.schema, [*by, name]) for name in WAC]
    return lambda: sum(len(cells) for one in wanted for cells in stream(tables, one))


def at_once(folder: Path, by: list[str]) -> Callable[[], int]:
    """The same counts from one query, batch by batch, as a release reads them."""
    from eree.data.tabulate import stream
    from eree.workload import Marginals

    tables = pickle.loads((folder / ".bench-tables.pickle").read_bytes())
    wanted = Marginals.of(tables.schema, by, None, [[name] for name in WAC])
    counts = len(wanted.counts(tables.schema))
    return lambda: sum(len(cells) for cells in stream(tables, wanted)) * counts


def wac_year(folder: Path, by: list[str], memory_limit: str | None = None) -> Callable[[], int]:
    """A whole release of all marginals from one draw."""
    from dataclasses import replace

    import eree

    tables = pickle.loads((folder / ".bench-tables.pickle").read_bytes())
    tables = replace(tables, memory_limit=memory_limit)
    home = tempfile.TemporaryDirectory(dir=folder)
    plan = eree.Plan.of(
        {
            "data": str(folder.resolve()),
            "privacy": {"neighbours": "strong", "alpha": "0.1", "epsilon": "4"},
            "table": [{"name": "wac", "by": by, "marginals": list(WAC), "epsilon": "4"}],
        }
    )
    ledger = eree.Ledger.create(Path(home.name) / "ledger.db", plan.total, data_set="data")
    publish, out = eree.publish, Path(home.name) / "out"

    def go() -> int:
        release = publish(plan, tables, ledger=ledger, out=out)
        _ = home  # the folder lives as long as this does
        return sum(int(release.about(name)["rows"]) for name in release.tables)

    return go


def opendp(folder: Path, by: list[str]) -> Callable[[], int]:
    """Noisy counts of the cells that exist, by OpenDP over Polars; values as whole-number codes."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    jobs = pl.scan_parquet(folder / "job.parquet")
    frame = jobs.join(pl.scan_parquet(folder / "workplace.parquet"), on="workplace_id")
    if not set(by) <= set(WORKPLACE):
        frame = frame.join(pl.scan_parquet(folder / "worker.parquet"), on="worker_id")

    def go() -> int:
        codes = (pl.col(name).cast(pl.Categorical).to_physical() for name in by)
        data = frame.select(by).collect(engine="streaming").with_columns(codes).lazy()
        context = dp.Context.compositor(
            data=data,
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(epsilon=2.0),
            split_evenly_over=1,
            margins=[dp.polars.Margin(by=by, invariant="keys")],
        )
        counts = context.query().group_by(by).agg(dp.len(signed=True))
        return len(counts.release().collect())

    return go


CONTESTANTS: dict[str, Callable[[Path, list[str]], Callable[[], int]]] = {
    "eree": ours,
    "eree within 3 GB": ours_within("3GB"),
    "hand-written SQL": handwritten,
    "hand-written SQL, same statistics": handwritten_same,
    "reading the columns": reading,
    "Polars": polars,
    "eree, cells alone": counting,
    "eree, released": releasing,
    "OpenDP": opendp,
    "eree, marginals one by one": one_by_one,
    "eree, marginals at once": at_once,
    "eree, WAC year released": wac_year,
    "eree, WAC year released within 2 GB": lambda folder, by: wac_year(folder, by, "2GB"),
}


def main() -> None:
    name, folder, *by = sys.argv[1:]
    go = CONTESTANTS[name](Path(folder), by)
    began = time.perf_counter()
    rows = go()
    seconds = time.perf_counter() - began
    # not getrusage: its peak counts the moment before this program replaced its parent
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024
    print(json.dumps({"seconds": seconds, "peak_mib": peak, "rows": rows}))


if __name__ == "__main__":
    main()
