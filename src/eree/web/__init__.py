"""The public query tool: released tables and protected cubes in a browser, with honest errors."""

from eree.errors import require

require(
    "serve",
    "cachetools",
    "httptools",
    "jinja2",
    "shapely",
    "starlette",
    "uvicorn",
    "uvloop",
    "xlsxwriter",
)
