"""Slurm's jobs and their GPUs, without a question to its controller: control groups,
environments, the prolog's files.
"""
