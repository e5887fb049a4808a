"""What it costs: prices, and the ledger that never forgets one."""
