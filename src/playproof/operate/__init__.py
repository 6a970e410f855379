"""Put models to work: bots behind an order gate with limits, kill and audit log; experiments; jobs and their worker.

Knows no game: a game's adapter (workflows/crash/bot) says what an order costs and what came of it.
"""
