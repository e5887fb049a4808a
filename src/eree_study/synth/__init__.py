"""A synthetic linked employer-employee population, heavy-tailed like the papers' data."""

from eree_study.synth.population import synthesize

__all__ = ["synthesize"]
