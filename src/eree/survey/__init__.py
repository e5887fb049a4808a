"""The survey cube: a weighted sample becomes a protected table of everything by everything."""
