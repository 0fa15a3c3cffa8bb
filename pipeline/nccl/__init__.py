"""NCCL's vocabulary: what one look at a job's communicators told, whoever told it."""
