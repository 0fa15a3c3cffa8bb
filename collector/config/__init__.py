"""Configuration: YAML file < environment < flags, decoded strictly into frozen values
(``collector.config.load``). Empty: the light commands import ``collector.config.error`` alone.
"""
