"""The door to plotting for the study: figures of plain arrays, as PNG or SVG by their name."""

from eree.errors import require

require("plot", "matplotlib")
