"""A made-up linked employer-employee population, heavy-tailed like the papers' data."""

from eree.data.synthetic.population import synthesize

__all__ = ["synthesize"]
