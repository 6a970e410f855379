"""Recorded play of the crash game: decoding, tracking, alignment and the columnar pass."""
