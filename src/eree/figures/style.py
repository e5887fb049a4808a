"""What all pictures share: colours that stay apart in print and for colour-blind readers."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "eree"  # the same picture has the same bytes

STRONG, MIDDLE, PALE = "#9b2226", "#ee9b00", "#94d2bd"
INK, CALM, FAINT = "#22333b", "#0a9396", "#dee2e6"
#: From light to dark, for something that grows.
RISING = ("#e9a03b", "#cf6a3c", "#a63d57", "#6b2a6b", "#2c1e54")
