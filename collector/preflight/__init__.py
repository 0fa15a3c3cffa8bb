"""Checks of a node before a job starts, or in an idle window."""
