"""NCCL's RAS subsystem: what its reports say, how to ask for one, and when asking is safe."""
