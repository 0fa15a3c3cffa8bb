"""PyTorch's Flight Recorder: dumps of what each rank called, read as the
hostile files that they may be.
"""
