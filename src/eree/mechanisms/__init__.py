"""How counts are protected: mechanisms, and certificates that recheck them."""
