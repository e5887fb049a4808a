"""How cells are counted: the tables, the engine, the tabulation, and synthetic populations."""
