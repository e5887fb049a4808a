"""The door to plotting: figures of plain arrays, as PNG or SVG by the name of the file."""

from eree.errors import require

require("plot", "matplotlib")
