"""What a job set for NCCL, held against what its nodes have."""
