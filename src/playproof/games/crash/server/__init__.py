"""The crash game as a Socket.IO server with a page to play on."""
