"""NCCL's vocabulary: what one look at a job's communicators reported, from any source."""
