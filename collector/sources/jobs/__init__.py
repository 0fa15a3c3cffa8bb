"""Who holds which GPU: pods as the kubelet tells them, Slurm's jobs as their processes
and its prolog tell them.
"""
