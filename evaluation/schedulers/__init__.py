"""The same simulated hours under the names of Slurm and of Kubernetes: what is found must be equal.

Job events of a fleet are replaced by what the agent's own sources report of it: allocations, owners
of pods and processes go through the code that a node runs.
"""
