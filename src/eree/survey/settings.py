"""The words that say how a cube is protected, apart from all arithmetic: a command starts fast."""

from __future__ import annotations

from typing import Literal, get_args

Method = Literal["none", "rake", "rake-nonnegative", "least-squares"]
METHODS: tuple[Method, ...] = get_args(Method)
#: Methods whose noise has a bound instead of a variance.
RAKED: tuple[Method, ...] = ("rake", "rake-nonnegative")

ModeName = Literal["guaranteed", "as-published"]
MODE_NAMES: tuple[ModeName, ...] = get_args(ModeName)
