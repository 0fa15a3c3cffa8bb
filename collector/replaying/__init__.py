"""Runs the detectors over what a store has kept: what would have been said,
in the agent's own words.
"""
