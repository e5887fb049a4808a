"""How counts are hidden: mechanisms, and certificates that recheck them."""
