"""NCCL's Inspector, a profiler plugin that jobs may load: how long each completed
collective took on each rank.
"""
