"""Ingest: messages of hosts become batches, in the gateway's process or in workers of their own."""
