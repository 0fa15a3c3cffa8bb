"""Judges the judges: findings against known faults."""
