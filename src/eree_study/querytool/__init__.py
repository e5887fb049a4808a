"""The query tool's evaluation, rerun, and its calibrations compared under a real guarantee."""
