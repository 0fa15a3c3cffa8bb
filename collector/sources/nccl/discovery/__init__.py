"""Which processes of the node hold GPUs and speak NCCL: from /proc alone,
without touching the process.
"""
