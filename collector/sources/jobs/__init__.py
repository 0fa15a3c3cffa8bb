"""Which job or pod has which GPU: pods from the kubelet, Slurm's jobs from their processes and its
prolog.
"""
