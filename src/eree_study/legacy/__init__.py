"""What was done before: input noise infusion, which has no formal guarantee, and attacks on it."""
