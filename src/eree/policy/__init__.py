"""What is protected: the schema of the linked tables."""
