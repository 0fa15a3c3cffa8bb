"""Exports: a slice of the store that can be read without Tocsin."""
