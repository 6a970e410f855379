"""Importers of older recordings of the crash game."""
