"""Speed and memory, measured side by side in one run.  Run by `make bench`."""
