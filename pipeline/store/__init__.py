"""Keeps: write-ahead log, Parquet, compaction, query. The only home of pyarrow and polars."""
