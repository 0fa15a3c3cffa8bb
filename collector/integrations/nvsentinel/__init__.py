"""The bridge to NVSentinel: incidents as its HealthEvents, to be stored
and never to be acted on.
"""
