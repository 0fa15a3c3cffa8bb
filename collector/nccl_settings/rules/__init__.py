"""Rules by subject; the table of all is in collector/nccl_settings/table.py."""
