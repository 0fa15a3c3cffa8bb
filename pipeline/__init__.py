"""Moves and keeps: the vocabulary, the engine, the store, the exposition.

Imports nothing of ours.
"""
