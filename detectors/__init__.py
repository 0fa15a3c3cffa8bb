"""Judges: one file per detector. Imports pipeline only."""
