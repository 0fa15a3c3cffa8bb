"""Job logs: what NCCL, PyTorch and launchers say when a job stalls."""
