"""Plans, releases and what can be made of them."""
