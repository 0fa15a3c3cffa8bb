"""Stored rows as observations again: whole columns at a time, of one node or of many together."""
