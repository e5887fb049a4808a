"""Linked tables of your own, in CSV: describe them, check them, count them."""

from pathlib import Path

import eree

FILES = {
    "workplace.csv": "id,town,branch\nA,Ostia,trade\nB,Ostia,school\nC,Veii,trade\n",
    "worker.csv": "person,sex\n1,F\n2,M\n3,F\n",
    "job.csv": "person,id\n1,A\n2,A\n3,B\n",
    "schema.toml": """
[workplace]
file = "workplace.csv"
key = "id"
attributes = { town = {}, branch = ["trade", "school"] }

[worker]
file = "worker.csv"
key = "person"
attributes = { sex = ["F", "M"] }

[job]
file = "job.csv"
worker = "person"
workplace = "id"
""",
}

folder = Path("own")
folder.mkdir()
for name, text in FILES.items():
    (folder / name).write_text(text, encoding="utf-8")

checked = eree.check(folder)
print(f"{len(checked.faults)} faults")
assert checked.tables is not None
for cell in eree.tabulate(checked.tables, by=["town", "sex"]).confidential.to_pylist():
    print(cell)

# A job at a workplace that does not exist is a fault, and names no value.
(folder / "job.csv").write_text("person,id\n1,A\n2,A\n3,Z\n", encoding="utf-8")
for fault in eree.check(folder).faults:
    print(fault)
