"""Features of the crash game: the table, the compiled state behind it, and the encoder of events."""
