"""Which tables of a cube are looked at: by public rules, the same for every cube of a shape."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from itertools import combinations, islice
from math import comb

from eree.errors import Refusal
from eree.survey.bounds import By
from eree.survey.shape import Shape

#: Of more tables of a dimension than this, as many are looked through in the order of the cube.
_MOST_LISTED = 100_000


@dataclass(frozen=True)
class Choice:
    """Tables of every dimension up to `most_dimensions`, at most `most_tables` of each.

    Where there are more, which ones are taken is decided by hashes of the seed and the names of
    their variables, so that a seed gives the same tables everywhere and no figure has a say.  The
    whole cube is always one of them.
    """

    most_dimensions: int = 3
    most_tables: int = 200
    seed: int = 1

    def __post_init__(self) -> None:
        for value, least in ((self.most_dimensions, 1), (self.most_tables, 1), (self.seed, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise Refusal(
                    "dimensions and tables are whole numbers from 1 on, and a seed is one from 0 on"
                )

    def tables(self, shape: Shape) -> dict[int, tuple[By, ...]]:
        """The tables by dimension; variables in the order of the cube."""
        names = tuple(variable.name for variable in shape.variables)
        found: dict[int, tuple[By, ...]] = {}
        for dimension in range(min(self.most_dimensions, len(names)) + 1):
            listed = list(islice(combinations(names, dimension), _MOST_LISTED))
            if len(listed) > self.most_tables:
                drawn = set(sorted(listed, key=self._rank)[: self.most_tables])
                listed = [by for by in listed if by in drawn]
            found[dimension] = tuple(listed)
        return found | {len(names): (names,)}

    def there_are(self, shape: Shape, dimension: int) -> int:
        """How many tables of a dimension there are to choose from."""
        return comb(len(shape.variables), dimension)

    def _rank(self, by: By) -> bytes:
        return hashlib.sha256(json.dumps([self.seed, *by]).encode()).digest()
