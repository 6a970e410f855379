"""Reports as single HTML files that open offline."""
