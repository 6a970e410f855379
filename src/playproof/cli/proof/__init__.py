"""Commands that validate, compare, audit, replay and judge."""
