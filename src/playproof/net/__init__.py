"""Network access shared by every server: who may connect, and running an application on a socket."""
