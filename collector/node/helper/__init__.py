"""Questions to the helper: a small process that may inspect other users' processes, so that the
agent need not (collector/helper).
"""
