"""NCCL stalls: which rank a job waits for, from reports of RAS, the Flight Recorder, the
Inspector, logs and the hardware.
"""
