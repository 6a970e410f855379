"""What the arena's rules leave open, as one frozen record, and what is traded.

Money is integers of 10^-9 USD; a perp is held in millionths of a share.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from playproof.errors import ConfigError
from playproof.money import UNIT

SHARE = 1_000_000
"""Units in one share; positions are whole numbers of units."""
TICK_SECONDS = 60
TICKS = 60
"""Ticks in one hour."""
FUNDING_HOURS = 8
FUNDING = 109_575
"""A long pays one part in so many of its size at each funding: 0.01 / 1095.75."""
SLOTS = 2
"""Prediction markets that are open at the same time."""
MAX_ACTIONS = 3
"""Actions of one agent in one tick."""


@dataclass(frozen=True, slots=True)
class Company:
    """A company that a perp is on."""

    name: str
    listing: int
    """Price of a share when trading began."""
    calling: str
    """The name that headlines use."""


COMPANIES = (
    Company("KITE", 100 * UNIT, "Kite Robotics"),
    Company("ORCA", 40 * UNIT, "Orca Shipping"),
    Company("FERN", 250 * UNIT, "Fern Health"),
    Company("VOLT", 12 * UNIT, "Volt Energy"),
)
PERPS = tuple(company.name for company in COMPANIES)


@dataclass(frozen=True)
class MarketRules:
    """The settings of a market."""

    kappa: float = 1e-5
    """Relative move of the price for each USD of notional that agents hold, at the listing price."""
    open_interest: int = 10_000
    """The most that all longs, and all shorts, of one perp may come to, in USD at the listing price."""
    position: int = 2_500
    """The most that one agent may hold of one perp, in USD at the listing price."""
    cash: int = 10_000 * UNIT
    """What an agent starts with."""
    liquidity: int = 500 * UNIT
    """Shares on each side of a new prediction pool."""
    least_size: int = 10 * UNIT
    """Smallest notional of a perp order."""
    least_bet: int = UNIT
    """Smallest amount for shares of a prediction market."""
    max_leverage: int = 100
    companies: tuple[Company, ...] = field(default=COMPANIES)

    def __post_init__(self) -> None:
        if not 0 <= self.kappa * self.open_interest <= 0.25:
            raise ConfigError(
                "expected kappa x open_interest from 0 to 0.25, so that impact stays a band around the fundamental, "
                f"found {self.kappa * self.open_interest:.3f}"
            )

    def impact(self, company: Company) -> float:
        """Give the relative move of the price for each unit held."""
        return self.kappa * (company.listing / UNIT) / SHARE

    def units(self, company: Company, usd: int) -> int:
        """Give how many units an amount of USD is at the listing price."""
        return usd * UNIT * SHARE // company.listing


FEE_FLOOR = UNIT // 100


def fee(size: int) -> int:
    """Give the fee on a size: 0.1 %, rounded up, at least 0.01."""
    return max(FEE_FLOOR, -(-size // 1000))
