"""In how many cells of place × sector does one workplace hold half of the jobs or more?"""

import eree
import eree_study

eree_study.synthesize("example-data", jobs=20_000, seed=3)
tables = eree.load("example-data")
cells = eree.tabulate(tables, by=["place", "sector"]).confidential

dominated = sum(
    2 * largest >= count > 0
    for count, largest in zip(cells["count"].to_pylist(), cells["largest"].to_pylist(), strict=True)
)
print(f"{dominated} of {cells.num_rows} cells are dominated by one workplace")
