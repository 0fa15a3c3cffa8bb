"""The files of the store: tables, encodings, the write-ahead log, and which files count."""
