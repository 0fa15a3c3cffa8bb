"""How a job is called: Slurm's id with or without the step, or the name of a training."""

from __future__ import annotations


def base(job: str) -> str:
    """The job without Slurm's step. Only an id has steps: names of others may contain dots, as the
    address of rank 0 does.

    >>> base("71.0"), base("71"), base("ml/train.v2.1a2b3c4d"), base("torchrun:a.b")
    ('71', '71', 'ml/train.v2.1a2b3c4d', 'torchrun:a.b')
    >>> base("71.batch"), base("10.0.0.1:29500"), base("10.0.0.1")
    ('71', '10.0.0.1:29500', '10.0.0.1')
    """
    head, _, step = job.partition(".")
    return head if head.isdecimal() and "." not in step else job
