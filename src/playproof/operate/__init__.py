"""What may bet, and how much: the order gate with its limits, the kill, the audit log, notifications.

Knows no game: a game's adapter (workflows/crash/bot) says what an order costs and what came of it.
"""
