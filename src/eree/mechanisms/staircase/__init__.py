"""The default for a single count."""
