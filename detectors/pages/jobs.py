"""Pages of the detectors that compare GPUs with those they work with, or judge a whole job."""

from __future__ import annotations

from collections.abc import Mapping

from detectors.pages.page import Page, Shown

GREYHOUND = "T. Wu et al., GREYHOUND: Hunting Fail-Slows in Hybrid-Parallel Training at Scale, ATC'25"
LLAMA = "Meta, The Llama 3 Herd of Models (2024), section 3.3.4"

PAGES: Mapping[str, Page] = {
    "hang": Page(
        "all members quiet for longer than max(180 s, the job's own pauses) while some wait at full utilisation; "
        "blamed: dead rank, rank with an error, the few that are idle, the last to stop",
        (LLAMA, "NVIDIA, NCCL documentation: NCCL_TIMEOUT and the RAS subsystem"),
        (Shown("gpu", "gpu_utilization_percent"), Shown("gpu", "power_milliwatts"), Shown("ib_port", "transmit_words")),
        "Ask the job's ranks (tocsin nccl status); end the job, and drain the node that is blamed before it starts again.",
        "When GPUs of the job have worked for half a minute, when none of them had a process for a minute, or when the "
        "scheduler says that the job is over.",
        ("hang",),
    ),
    "nccl": Page(
        "wait-for graph over all frozen communicators of a job; the culprit is awaited and waits for nobody",
        ("NVIDIA, NCCL documentation: RAS, Inspector", "PyTorch, Flight Recorder (torch.distributed)"),
        (Shown("gpu", "gpu_utilization_percent"), Shown("ib_port", "transmit_words")),
        "Do what the class says: a dead rank's node is drained, a mismatched collective is the application's to mend.",
        "When the job moves again or is over, when another verdict takes its place, or when nobody said anything of it for "
        "an hour.",
        unscored=(
            "no scenario has NCCL's own reports; stalls of the suite (F25, F26) are told from GPU readings by hang. It is tested "
            "with recorded reports and logs."
        ),
    ),
    "straggler": Page(
        "d = ln f - median of peers; r = d - b, b its own exponentially weighted past; r < -max(7 %, 5 s) for 3 minutes",
        (GREYHOUND, "P. Sinha et al., Not All GPUs Are Created Equal, SC'22"),
        (Shown("gpu", "sm_clock_megahertz"), Shown("gpu", "gpu_utilization_percent"), Shown("gpu", "power_milliwatts")),
        "Take the node out of the job at its next checkpoint and run the vendor's diagnosis; the job runs at its pace until then.",
        "After five blocks in a row within half of the limit (excursions that come and go: after an hour of such blocks); "
        "after a day of work at the new level, which is normal then.",
        ("straggler",),
    ),
    "ib_rail": Page(
        "d = ln(bytes per s) - median of the node's rails; r = d - b < -max(25 %, 5 s) for 5 minutes",
        (GREYHOUND,),
        (Shown("ib_port", "transmit_words"), Shown("ib_port", "receive_words")),
        "Look at cable, leaf port and firmware of this rail; compare with the same rail of another node.",
        "After five minutes with traffic within half of the limit.",
        ("straggler",),
    ),
}
