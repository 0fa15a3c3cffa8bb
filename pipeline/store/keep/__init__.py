"""Keeping: write, seal, compact, roll up, retain."""
