"""What a node has, as the kernel shows it: adapters, interfaces, GPUs and how they are connected,
limits of processes. Reads only, below given roots, so that saved and simulated trees work.
"""
