"""The kernel log: what the NVIDIA driver, the network drivers and the kernel itself say about the hardware."""
