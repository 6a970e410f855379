"""What runs several stages for the crash game: policies on a live feed, bots behind a gate."""
