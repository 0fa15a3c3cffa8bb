"""Why somebody was told: what a store has kept of an incident or a finding,
in words and as a picture.
"""
