"""The helper: the only process of Tocsin that may inspect other users' processes. It parses next to
nothing, opens only what the process asked about has named itself, and has no network of its own.
"""
