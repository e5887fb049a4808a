"""Noise in proportion to the largest workplace."""
