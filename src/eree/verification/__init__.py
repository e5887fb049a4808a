"""Recheck a release: files, prices, certificates, tables and cubes."""
