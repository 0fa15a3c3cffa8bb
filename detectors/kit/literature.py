"""Publications that several pages name as sources."""

from __future__ import annotations

GREYHOUND = (
    "T. Wu et al., GREYHOUND: Hunting Fail-Slows in Hybrid-Parallel Training at Scale, ATC'25"
)
IBTA = "IBTA, InfiniBand Architecture Specification volume 1"
LLAMA = "Meta, The Llama 3 Herd of Models (2024), section 3.3.4"
MEMORY = "NVIDIA, GPU Memory Error Management, docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt"
NVML = "NVIDIA, nvml.h (NVML API reference)"
PAGE_1954 = "E. S. Page, Continuous inspection schemes, Biometrika 41 (1954)"
SILICON = "P. Sinha et al., Not All GPUs Are Created Equal, SC'22"
UFM = "NVIDIA, UFM: packet drop rate (PDR) plug-in"
XIDS = "NVIDIA, XID Errors, docs.nvidia.com/deploy/xid-errors"
