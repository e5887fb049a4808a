"""All worker cells of a group at once."""
