"""NCCL's RAS subsystem: its reports, how to request one, and when that is safe."""
