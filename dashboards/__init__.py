"""Dashboards for Grafana: rows of plain values, built into the JSON files beside
them by `make dashboards`.
"""
