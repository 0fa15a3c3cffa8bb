"""What detectors are built from: state arrays, baselines, persistence, peers, statistics."""
