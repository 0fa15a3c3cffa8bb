"""NCCL's vocabulary: what one look at a job's communicators reported, whoever reported it."""
