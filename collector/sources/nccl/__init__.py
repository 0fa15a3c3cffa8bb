"""What NCCL says about a job: RAS, the Flight Recorder, the Inspector, and which processes of
the node speak it at all.
"""
