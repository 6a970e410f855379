"""Commands about what one has: everything in one list, runs, reports, and the trash."""
