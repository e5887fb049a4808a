"""Laplace noise on a transformed count."""
