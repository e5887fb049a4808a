from __future__ import annotations

from ledgers import place, postgres, where

__all__ = ["place", "postgres", "where"]
