"""The papers' own mechanisms."""
