"""The text of survey.toml: what the columns of a synthetic survey mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eree.survey.shape import Shape


def declaration_text(shape: Shape, replicates: Sequence[str] = ()) -> str:
    """survey.toml for the file of `synthesize_survey`."""
    lines = [
        "# A synthetic survey: no record describes a real job.",
        "[records]",
        'file = "records.parquet"',
        'record = "record_id"',
        'establishment = "establishment_id"',
        'weight = "weight"',
        'occupation = "occupation"',
    ]
    for variable in shape.variables:
        lines += [
            "",
            f"[variables.{variable.name}]",
            f'label = "{variable.label}"',
            f"codes = {_list(variable.codes)}",
        ]
        if variable.hierarchy:
            lines.append(f'hierarchy = "{variable.hierarchy}"')
        lines.append(f"[variables.{variable.name}.labels]")
        pairs = zip(variable.codes, variable.labels, strict=True)
        lines += [f'"{code}" = "{label}"' for code, label in pairs]
    for rule in shape.impossible:
        lines += ["", "[[impossible]]"]
        lines += [f"{name} = {_list(codes)}" for name, codes in rule.codes.items()]
    if replicates:
        lines += ["", "[replicates]", f"columns = {_list(replicates)}"]
    return "\n".join(lines) + "\n"


def _list(values: Iterable[str]) -> str:
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"
