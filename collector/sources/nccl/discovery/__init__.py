"""Which processes of the node hold GPUs and use NCCL: from /proc alone,
without touching the process.
"""
