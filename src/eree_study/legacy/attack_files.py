"""What a study of attacks leaves: a table, the same as plain data, and a picture."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from eree.partial import appearing_folder
from eree.policy.neighbours import Strong, plain
from eree_study.figures.attacks import Attacked, attacks_figure
from eree_study.legacy.attacks import INFUSED, OURS, STUDY, UNROUNDED, AttackFindings
from eree_study.legacy.games import DIFFERENCING, REIDENTIFICATION, SHAPE, SIZE
from eree_study.synth.population import checked_target

PICTURE = "attacks.png"
#: What the attacker asks, in words for the picture.
QUESTIONS = {
    SHAPE: "How many of its workers\nare women?\n(shape)",
    SIZE: "How many workers has it,\nif one count is known?\n(size)",
    REIDENTIFICATION: "Who is its only graduate?\nsex, age and race\n(re-identification)",
    DIFFERENCING: "How many are women,\nfrom two overlapping tables?\n(differencing)",
}


def write_attacks(findings: AttackFindings, out: Path) -> Path:
    """Write attacks.csv, attacks.json, attacks.png and attacks.svg into a new or empty folder.

    The folder appears whole or not at all.  Returns the picture.
    """
    target = checked_target(out)
    relation = findings.guarantee.neighbours
    assert isinstance(relation, Strong)
    note = f"{STUDY}; alpha {plain(relation.alpha)}, epsilon {plain(findings.guarantee.epsilon)}"
    attacks = []
    for attack, question in QUESTIONS.items():
        ours = findings.tally(attack, OURS)
        attacks.append(
            Attacked(
                question,
                ours.guessing,
                ours.rate,
                ours.promised or 0.0,
                findings.tally(attack, INFUSED).rate,
                findings.tally(attack, UNROUNDED).rate,
            )
        )
    with appearing_folder(target) as folder:
        rows = findings.rows()
        with (folder / "attacks.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        text = json.dumps(findings.as_json(), indent=1) + "\n"
        (folder / "attacks.json").write_text(text, encoding="utf-8")
        for name in (PICTURE, "attacks.svg"):
            attacks_figure(folder / name, attacks=attacks, note=note)
    return out / PICTURE
