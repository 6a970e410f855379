"""The rules of the crash game: prices, worlds, exact money, actions, windows and theory."""
