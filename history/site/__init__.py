"""Where a history is read from: Prometheus by remote read or queries, VictoriaMetrics by export,
blocks by promtool.
"""
