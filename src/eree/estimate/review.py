"""What reviewers ask of a release, written from its record alone.

Three files: answers to what NIST SP 800-226 asks of a differential-privacy guarantee, an entry for
the registry of differential-privacy deployments (all fields of its third tier), and a description
of the data set for catalogues (DCAT 3, as JSON-LD).  What only the office knows is marked, and
nothing is made up in its place.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from eree.errors import Refusal
from eree.partial import appearing_folder
from eree.policy.neighbours import Edge, Neighbours, Strong, Weak, plain
from eree.release.issue import new_folder
from eree.release.release import Release, opening

ANSWERS, REGISTRY, CATALOGUE = "nist-sp-800-226.md", "registry.yaml", "dcat.jsonld"
#: What an office has to say itself, wherever it stands.
TO_SAY = "TO BE STATED BY THE OFFICE"


@dataclass(frozen=True)
class Review:
    """What was written for reviewers.

    Attributes:
        folder: Where the files are.
        open: How often the office has something to add in each.

    Examples:
        >>> eree.write_review("out", "reviewed").open["dcat.jsonld"]
        3
    """

    folder: Path
    open: Mapping[str, int]


@opening
def write_review(
    release: Release, out: str | os.PathLike[str], *, address: str | None = None
) -> Review:
    """Write what reviewers ask of a release into a new folder.

    `address` is where its files can be had, from which those in the catalogue's entry follow.

    Args:
        release: A release, or the name of its folder.
        out: A new folder.
        address: Where the files of the release can be had.

    Examples:
        >>> eree.write_review("out", "review").folder.name
        'review'
    """
    if "kind" in release.record:
        raise Refusal("records for reviewers are of releases of tables, and this is a cube")
    if not release.private:
        words = "is a rehearsal" if release.rehearsal else "is not private"
        raise Refusal(f"the release in {release.folder} {words}: there is nothing to review")
    said = _Said(release)
    catalogue = json.dumps(_catalogue(said, address), indent=1, ensure_ascii=False)
    texts = {
        ANSWERS: "\n".join(_answers(said)) + "\n",
        REGISTRY: "\n".join(_yaml(_registry(said))) + "\n",
        CATALOGUE: f"{catalogue}\n",
    }
    with appearing_folder(new_folder(Path(out))) as folder:
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    return Review(Path(out), {name: text.count(TO_SAY) for name, text in texts.items()})


class _Said:
    """What a release says of itself, in the words that all three files use."""

    def __init__(self, release: Release) -> None:
        self.release, self.record = release, release.record
        self.price = release.guarantee
        about = release.described
        self.title = about.get("title") or f"Employment tables of {release.data_set}"
        self.publisher = about.get("publisher", TO_SAY)
        self.contact, self.licence = about.get("contact"), about.get("licence")
        self.source, self.note = about.get("source", TO_SAY), about.get("note", "")
        self.jobs = release.schema.job.counted

    @property
    def tables(self) -> list[str]:
        """Each table in a sentence."""
        found = []
        for table in self.record["tables"]:
            what = "workplaces by size" if table.get("profile") else "jobs"
            by = f" by {', '.join(table['by'])}" if table["by"] else ""
            kept = "; ".join(f"{k} in {', '.join(map(str, v))}" for k, v in table["where"].items())
            price = f"epsilon {plain(Fraction(table['price']['epsilon']))}"
            where = f" where {kept}" if kept else ""
            found.append(f"{table['name']}: {what}{by}{where}, {price}, {table['mechanism']}")
        return found

    @property
    def mechanisms(self) -> str:
        """Their names, each once."""
        return ", ".join(dict.fromkeys(table["mechanism"] for table in self.record["tables"]))

    @property
    def parameters(self) -> str:
        """The price in words."""
        relation = self.price.neighbours
        alpha = f", alpha {plain(relation.alpha)}" if isinstance(relation, (Strong, Weak)) else ""
        numbers = f"epsilon {plain(self.price.epsilon)}, delta {plain(self.price.delta)}"
        return f"{numbers}{alpha} ({relation.name} neighbours)"

    @property
    def unit(self) -> str:
        """What one step of the guarantee is."""
        return _step(self.price.neighbours)

    @property
    def several(self) -> str:
        """What follows for a worker with several jobs."""
        if self.jobs.chosen:
            return (
                "One job of each worker was chosen to count. A worker with all of her jobs is one"
                " step; one of them more or less can change which one counts and is two. The size"
                " of a workplace is protected with the jobs that count elsewhere held fixed."
            )
        if self.jobs.most == 1:
            return "Every worker has one job that counts."
        return (
            f"A worker has at most {self.jobs.most} jobs that count, and is at most as many steps:"
            " the loss of a worker is so many times epsilon."
        )

    @property
    def protected(self) -> str:
        """Whom the neighbours protect."""
        relation = self.price.neighbours
        whom = "Job" if self.jobs.most > 1 else "Worker"
        place = "" if isinstance(relation, Edge) else " and workplace"
        return f"{whom}{place} ({relation.name} neighbours)"


def _step(relation: Neighbours) -> str:
    if isinstance(relation, Strong):
        share = plain(relation.alpha)
        return f"one workplace gains any workers, one or up to {share} of its workforce"
    if isinstance(relation, Weak):
        types, share = ", ".join(relation.types) or "all workers", plain(relation.alpha)
        return (
            f"one workplace gains workers, of every set of types ({types}) one or up to {share} of"
            " those it has"
        )
    return {
        "edge": "one job is added to one workplace",
        "node": "one workplace gains any number of workers",
    }[relation.name]


_PUBLIC = (
    "Which workplaces exist and their public attributes, numbers of workplaces in cells, which"
    " areas lie in which, the plan and its prices; cells without workplaces are left out."
)
_EXACT = (
    "Outputs are integers drawn with exactly the stated probabilities from AES-256 in counter mode,"
    " keyed by the operating system; no floating-point number of the noise is kept."
)
_COMPOSITION = (
    "Prices of tables add up; tables of workplaces that cannot overlap, by public filters, cost the"
    " greatest of their prices. A ledger of the data set reserves each price before anything is"
    " drawn, and never gives one back."
)
_TUNING = (
    "None on confidential data: plans, prices and mechanisms are settled from the schema, the"
    " public workplaces and public sizes alone."
)
_AFTER = (
    "Negative counts are shown as zero in the column employment; estimates that agree between"
    " tables, intervals, ranks and exports are made of released numbers alone."
)


def _answers(said: _Said) -> Iterator[str]:
    """The page for a reviewer who goes by NIST SP 800-226, from the guarantee down to the data."""
    record, paid = said.record, said.record["ledger"]
    yield f"# {said.title}: evaluation of the guarantee by NIST SP 800-226"
    yield ""
    yield f"Release {record['release']}, made {record['made']} by eree {record['eree']};"
    yield f"period: {record['period'] or TO_SAY}; SHA-256 of the record: {record['digest']}."
    sections: list[tuple[str, list[str]]] = [
        ("Privacy parameters", [f"{said.parameters}.", *record["statements"]]),
        (
            "Unit of privacy and definition",
            [
                f"ER-EE privacy: neighbouring data differ in one step, in which {said.unit}; the"
                " inequality of differential privacy holds for them in both directions.",
                said.several,
                f"Declared keys: {json.dumps(record['protects'], ensure_ascii=False)}.",
            ],
        ),
        ("Not protected", [_PUBLIC]),
        ("Queries and mechanisms", said.tables),
        (
            "Correctness",
            [
                "Each mechanism of eree has a proof, and each has a certificate, which computes the"
                " worst loss from the probabilities of outputs; 'eree verify' computes it again.",
                _EXACT,
            ],
        ),
        (
            "Utility and bias",
            [
                f"Each count has an interval that holds the true one with probability"
                f" {plain(Fraction(record['level']))}, whatever the data are.",
                _AFTER,
            ],
        ),
        ("Composition and other releases", [_COMPOSITION, _entry(paid)]),
        ("Tuning and exploration", [_TUNING]),
        (
            "Trust model",
            ["Central: the office holds the data and draws the noise; readers are not trusted."],
        ),
        (
            "Side channels",
            [
                "The time that a command takes depends on the data, and is not protected.",
                "No message, log or file name holds a value of a confidential row.",
            ],
        ),
        ("Security and access control", [f"Who may read data, ledger and keys: {TO_SAY}."]),
        ("Data collection", [f"Source: {said.source}.", f"Exposure before release: {TO_SAY}."]),
        ("Why these parameters", [f"Who decided on them, and on what grounds: {TO_SAY}."]),
    ]
    for title, lines in sections:
        yield f"\n## {title}\n"
        yield from (f"- {line}" for line in lines)


def _entry(paid: Mapping[str, Any]) -> str:
    return f"Paid by entry {paid['entry']} of ledger {paid['id']}, hash {paid['hash']}."


def _registry(said: _Said) -> dict[str, Any]:
    """An entry for the registry of differential-privacy deployments, tier 3."""
    record, price = said.record, said.price
    parameters = {"epsilon": float(price.epsilon)}
    if price.delta:
        parameters["delta"] = float(price.delta)
    noted = f"{said.note} " if said.note else ""
    return {
        "url_slug": f"release-{record['release']}",
        "deployment": {
            "basic": {
                "name": said.title,
                "data_curators": [
                    {"data_curator_name": said.publisher, "data_curator_type": TO_SAY}
                ],
                "description": f"{noted}Tables: {'; '.join(said.tables)}.",
                "intended_use": TO_SAY,
                "data_product_type": "Summary statistics",
                "data_product_region": TO_SAY,
                "data_product_sector": TO_SAY,
                "publication_date": record["made"][:10],
            },
            "dp_variant": {
                "variant_name": "Approximate DP" if price.delta else "Pure DP",
                "data_domain": "Tables of counted jobs that link workers to workplaces; the set of"
                " workplaces and their public attributes is the same in all.",
                "unprotected_quantities": _PUBLIC,
            },
            "privacy_loss": {
                "privacy_unit": said.protected,
                "privacy_unit_details": f"Adjacent: {said.unit}. {said.several}",
                "number_of_privacy_units": 1,
                "privacy_parameters": parameters,
                "privacy_parameters_details": " ".join(
                    (f"{said.parameters}.", *record["statements"])
                ),
            },
            "deployment_model": {
                "model_name": "Central",
                "model_name_details": "The office holds the data and draws the noise.",
                "trust_assumptions": "The office, its machines and its administrators are trusted.",
                "actors": f"The publisher ({said.publisher}); readers, who may know all else.",
                "release_type": "One release",
                "release_type_details": f"{_COMPOSITION} {_entry(record['ledger'])}",
                "data_source_type": "Static",
                "data_source_type_details": f"{said.source}; period {record['period'] or TO_SAY}",
                "access_type": "Non-interactive",
                "access_type_details": "Files; queries are answered from released numbers alone.",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": _TUNING,
                "mechanisms": f"{said.mechanisms}, of eree {record['eree']}. {_EXACT}",
                "composition": _COMPOSITION,
                "post_processing": _AFTER,
                "justification": TO_SAY,
                "utility": f"Intervals at {plain(Fraction(record['level']))} with every count.",
                "additional_information": f"SHA-256 of the record: {record['digest']}",
            },
            "administrative": {
                "evidence_sources": {},
                "status": "Draft",
                "registry_authors": [said.publisher],
                "tier": 3,
            },
        },
    }


def _yaml(data: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """Plain data in YAML, every text in quotes as JSON has them."""
    blank = "  " * depth
    for name, value in data.items():
        if isinstance(value, Mapping) and value:
            yield f"{blank}{name}:"
            yield from _yaml(value, depth + 1)
        else:
            yield f"{blank}{name}: {json.dumps(value, ensure_ascii=False)}"


_CONTEXT = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dcterms": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "spdx": "http://spdx.org/rdf/terms#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
_MEDIA = "https://www.iana.org/assignments/media-types/"
_TYPES = {".csv": "text/csv", ".parquet": "application/vnd.apache.parquet"}


def _catalogue(said: _Said, address: str | None) -> dict[str, Any]:
    """The data set and its files, for a catalogue."""
    record = said.record
    found: dict[str, Any] = {
        "@context": _CONTEXT,
        "@id": f"urn:uuid:{record['release']}",
        "@type": "dcat:Dataset",
        "dcterms:identifier": record["release"],
        "dcterms:title": said.title,
        "dcterms:description": f"{said.note} {said.parameters}. {'; '.join(said.tables)}.".strip(),
        "dcterms:issued": {"@type": "xsd:dateTime", "@value": record["made"]},
        "dcterms:publisher": {"@type": "foaf:Agent", "foaf:name": said.publisher},
        "dcterms:provenance": {"@type": "dcterms:ProvenanceStatement", "rdfs:label": said.source},
    }
    if record["period"]:
        period = {"@type": "dcterms:PeriodOfTime", "rdfs:label": record["period"]}
        found["dcterms:temporal"] = period
    if said.contact:
        found["dcat:contactPoint"] = {"@type": "vcard:Kind", "vcard:fn": said.contact}
    rights = {"@type": "dcterms:RightsStatement", "rdfs:label": said.licence or TO_SAY}
    found["dcterms:rights"] = rights
    found["dcat:distribution"] = [
        _distribution(said, name, digest, address)
        for table in record["tables"]
        for name, digest in table["files"].items()
    ]
    return found


def _distribution(said: _Said, name: str, digest: str, address: str | None) -> dict[str, Any]:
    path = said.release.folder / name
    sum_ = {
        "@type": "spdx:Checksum",
        "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256"},
        "spdx:checksumValue": digest,
    }
    found: dict[str, Any] = {
        "@type": "dcat:Distribution",
        "dcterms:title": name,
        "dcat:mediaType": {"@id": f"{_MEDIA}{_TYPES[path.suffix]}"},
        "dcat:byteSize": {
            "@type": "xsd:nonNegativeInteger",
            "@value": str(path.stat().st_size),
        },
        "spdx:checksum": sum_,
    }
    if address is not None:
        found["dcat:downloadURL"] = {"@id": f"{address.rstrip('/')}/{name}"}
    return found
