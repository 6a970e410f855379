"""Import of recordings from files, folders and archives."""
