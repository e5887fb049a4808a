"""The public query tool: released tables and protected cubes in a browser, with honest errors."""
