"""The event log: writer, Parquet parts, compaction, reading, queries and verification."""
