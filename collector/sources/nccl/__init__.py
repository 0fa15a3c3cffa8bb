"""What NCCL reports about a job: RAS, the Flight Recorder, the Inspector, and which processes of
the node use it.
"""
