"""Define a game of your own and check it against the contract.

This one is CoinGame under another name. docs/dev/adding-a-game.md explains every part of a game.
"""

import playproof
from playproof.errors import ContractError
from playproof.game import broken_clauses
from playproof.testing import coin
from playproof.testing.altered import altered

mine = altered(coin.game(), name="double-coin", doc="Bet on a coin, with a name of its own.")
playproof.check_game(mine)
print("contract kept:", mine.name, "with worlds", ", ".join(mine.worlds))

broken = altered(mine, ceiling=lambda _: -1.0)  # wrong: one need not play, so the best is at least 0
try:
    playproof.check_game(broken)
except ContractError:
    for breach in broken_clauses(broken):
        print(f"broken clause {breach.clause}: {breach.what}")
