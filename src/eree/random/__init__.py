"""Secret randomness, and exact sampling from it."""
