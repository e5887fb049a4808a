"""Assessment: the curator compares a confidential cube with what is published of it."""
