"""Alerting rules as rows: built into YAML and the runbook by build.py."""
