"""Asking: tables as lazy frames, and the canned questions."""
