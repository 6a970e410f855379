"""What tests and plug-ins stand on: the smallest game, strategies for hypothesis, the whole ring in one call.

`coin` is CoinGame, `skeleton` takes it from a recording to a verdict; `strategies` needs hypothesis
and is imported only when it is asked for.
"""
