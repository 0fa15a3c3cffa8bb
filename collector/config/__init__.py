"""Configuration: YAML file < environment < flags, decoded strictly into frozen values (``collector.config.load``)."""

from collector.config.settings import Config
from collector.config.units import Seconds

__all__ = ["Config", "Seconds"]
