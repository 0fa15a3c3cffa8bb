"""What every test gets: a machine that cannot be reached by accident, and one golden-file helper."""
