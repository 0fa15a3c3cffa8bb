"""What we claim, measured beside its peers: ``python -m benchmarks.NAME``."""
