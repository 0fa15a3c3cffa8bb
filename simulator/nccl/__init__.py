"""A training job's NCCL as it shows itself: RAS replies, byte for byte, of jobs that are
healthy, stuck, dying or lying.
"""
