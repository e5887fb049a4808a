"""Does it work: the papers' tables and experiments."""
