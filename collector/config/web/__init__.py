"""The web configuration: exporter-toolkit's file of TLS, users, headers and
limits, read and checked.
"""
