"""Why an alert was sent: what a store has kept of an incident or a finding,
in words and as a picture.
"""
