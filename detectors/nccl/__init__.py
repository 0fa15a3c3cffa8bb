"""NCCL stalls: which rank a job waits for, from all that RAS, the Flight Recorder, the Inspector, logs and the hardware told."""
