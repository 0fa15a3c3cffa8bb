"""Quick checks by part of the node; the list of all is in collector/preflight/quick.py."""
