"""Vector mechanisms by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from eree.mechanisms.knorm_linlog import KNormLinLog
from eree.mechanisms.two_stage import TwoStageClip
from eree.mechanisms.vector import VectorMechanism
from eree.mechanisms.vector_pareto import VectorPareto
from eree.mechanisms.vector_radial import VectorRadial

VECTOR_MECHANISMS: Mapping[str, type[VectorMechanism]] = MappingProxyType(
    {kind.name: kind for kind in (VectorRadial, VectorPareto, KNormLinLog, TwoStageClip)}
)
