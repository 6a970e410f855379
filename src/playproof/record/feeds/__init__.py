"""Live feeds: a Socket.IO client and a browser page."""
