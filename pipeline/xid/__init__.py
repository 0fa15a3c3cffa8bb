"""XIDs: their table, and each one counted once."""
