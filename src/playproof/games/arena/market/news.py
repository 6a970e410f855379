"""What happens by itself: fundamentals move, stories break, questions are asked, the crowd talks.

Everything is a function of seed, scenario and tick; agents' orders change nothing of it, so that
forks of a window face the same future. A question's answer is fixed when it is asked and stays here
until its market is resolved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from playproof.games.arena.market.exchange import LEAST_FUNDAMENTAL, Exchange
from playproof.games.arena.market.pools import NO, YES
from playproof.games.arena.market.rng import bell, chance, draw, within
from playproof.games.arena.market.rules import COMPANIES, SLOTS
from playproof.games.arena.market.worlds import Scenario

MILLION = 1_000_000
NOISE, NEWS, LEAK, RUMOUR, QUESTION, SCANDAL, PUMP = range(7)
"""Streams of random numbers."""

GOOD = ("beats forecasts", "wins a large contract", "is upgraded by analysts", "opens a new plant")
BAD = ("misses forecasts", "loses a large contract", "is downgraded by analysts", "recalls a product")
SCANDALS = ("is investigated for fraud", "admits false accounts", "loses its chief after a raid")
TOPICS = (
    "Will {} name a new chief?",
    "Will {} win the court case?",
    "Will {} announce a merger?",
    "Will the regulator fine {}?",
)
UP_POSTS = ("{} looks strong today", "insiders are buying {}", "{} is far too cheap")
DOWN_POSTS = ("{} looks weak today", "insiders are leaving {}", "{} is far too dear")
HYPE = "{} TO THE MOON, buy now, everybody is in"
CROWD = ("marble", "tanager", "old_hand", "quill")


@dataclass(frozen=True, slots=True)
class Story:
    """A move that unfolds over the ticks to come."""

    market: str
    move: int
    """Parts per million in each tick."""
    left: int
    wait: int = 0
    """Ticks before it begins."""


@dataclass(frozen=True, slots=True)
class MarketQuestion:
    """A yes/no question that a prediction market is on."""

    market: str
    text: str
    answer: int
    """Which side comes true; hidden until the market is resolved."""
    closes: int
    """The tick at whose end it is resolved."""


@dataclass(frozen=True, slots=True)
class NewsItem:
    """A headline or a post."""

    market: str
    text: str
    mood: float
    """From -1 to 1, as it sounds; for a question, towards YES."""
    author: str | None = None
    """Who posted it, None for a headline."""


@dataclass
class NewsProcess:
    """The state of what happens by itself."""

    scenario: Scenario
    seed: int
    stories: list[Story] = field(default_factory=list)
    questions: dict[str, MarketQuestion] = field(default_factory=dict)
    asked: int = 0

    def copy(self) -> NewsProcess:
        """Give a nature of its own in the same state."""
        return replace(self, stories=list(self.stories), questions=dict(self.questions))

    def move(self, tick: int, exchange: Exchange) -> list[NewsItem]:
        """Move every fundamental by one tick; give what is told of it."""
        moves = dict.fromkeys(exchange.listings, self.scenario.drift)
        for story in self.stories:
            if not story.wait:
                moves[story.market] += story.move
        self.stories = [_older(story) for story in self.stories if story.left > 1]
        for index, (market, listing) in enumerate(exchange.listings.items()):
            step = moves[market] + bell(draw(self.seed, NOISE, tick, index), self.scenario.noise)
            listing.fundamental = max(LEAST_FUNDAMENTAL, listing.fundamental * (MILLION + step) // MILLION)
        return [*self._news(tick, exchange), *self._leaks(tick), *self._rumours(tick, exchange)]

    def ask(self, tick: int, window: int) -> list[MarketQuestion]:
        """Ask new questions where a slot is free; they are open for one to three windows of so many ticks."""
        free = {slot_of(market) for market in self.questions}
        asked = []
        for slot in range(SLOTS):
            if slot in free:
                continue
            bits = draw(self.seed, QUESTION, tick, slot)
            market = f"Q{self.asked * SLOTS + slot}"
            answer = YES if chance(draw(bits, 1), within(draw(bits, 2), 30, 70) / 100) else NO
            topic = TOPICS[within(draw(bits, 3), 0, len(TOPICS) - 1)].format(CALLINGS[draw(bits, 4) % len(CALLINGS)])
            asked.append(MarketQuestion(market, topic, answer, tick + window * within(draw(bits, 5), 1, 3) - 1))
        self.asked += 1
        self.questions |= {question.market: question for question in asked}
        return asked

    def due(self, tick: int) -> list[MarketQuestion]:
        """Give the questions to be resolved at the end of a tick, and forget them."""
        result = [question for question in self.questions.values() if question.closes <= tick]
        self.questions = {market: question for market, question in self.questions.items() if question.closes > tick}
        return result

    def _news(self, tick: int, exchange: Exchange) -> Iterator[NewsItem]:
        """Begin stories, with the headlines that tell of them."""
        for index, market in enumerate(exchange.listings):
            bits = draw(self.seed, NEWS, tick, index)
            if chance(bits, self.scenario.news):
                yield self._story(market, bits)
            bits = draw(self.seed, SCANDAL, tick, index) if self.scenario.scandal else 0
            if self.scenario.scandal and chance(bits, self.scenario.scandal):
                ticks = within(draw(bits, 1), 30, 45)
                self.stories.append(Story(market, -within(draw(bits, 2), 40_000, 80_000) // ticks, ticks))
                yield NewsItem(market, f"{calling(market)} {_pick(SCANDALS, bits)}", -1.0)
        if self.scenario.pump and chance(draw(self.seed, PUMP, tick), self.scenario.pump):
            market = next(reversed(exchange.listings))
            self.stories += [Story(market, 2_700, 15), Story(market, -5_000, 10, wait=15)]
            yield NewsItem(market, HYPE.format(market), 1.0, CROWD[0])

    def _story(self, market: str, bits: int) -> NewsItem:
        """Begin a story; its headline points the right way as often as the scenario says."""
        ticks = within(draw(bits, 1), *self.scenario.spread)
        size = within(draw(bits, 2), *self.scenario.story)
        up = chance(draw(bits, 3), 0.5)
        self.stories.append(Story(market, size // ticks * (1 if up else -1), ticks))
        good = up == chance(draw(bits, 4), self.scenario.accuracy)
        mood = within(draw(bits, 5), 40, 90) / 100
        return NewsItem(market, f"{calling(market)} {_pick(GOOD if good else BAD, bits)}", mood if good else -mood)

    def _leaks(self, tick: int) -> Iterator[NewsItem]:
        """Let something be told of a question."""
        for market, question in self.questions.items():
            bits = draw(self.seed, LEAK, tick, slot_of(market))
            if not chance(bits, self.scenario.leaks):
                continue
            towards = (question.answer == YES) == chance(draw(bits, 1), self.scenario.leak_accuracy)
            how = "likely" if towards else "unlikely"
            yield NewsItem(market, f"sources call {market} {how}", 0.5 if towards else -0.5)

    def _rumours(self, tick: int, exchange: Exchange) -> Iterator[NewsItem]:
        """Let somebody in the crowd post on a company that a story is about, or on any."""
        bits = draw(self.seed, RUMOUR, tick)
        if not chance(bits, self.scenario.rumours):
            return
        names = list(exchange.listings)
        running = [story for story in self.stories if not story.wait]
        story = running[draw(bits, 1) % len(running)] if running else None
        up = chance(draw(bits, 2), 0.5)
        if story is not None:
            up = (story.move > 0) == chance(draw(bits, 3), self.scenario.rumour_accuracy)
        market = story.market if story is not None else names[draw(bits, 4) % len(names)]
        text = _pick(UP_POSTS if up else DOWN_POSTS, bits).format(market)
        yield NewsItem(market, text, 0.3 if up else -0.3, CROWD[draw(bits, 5) % len(CROWD)])


def slot_of(market: str) -> int:
    """Give the slot of a prediction market, which its number tells; -1 for what is none."""
    number = market[1:]
    return int(number) % SLOTS if market[:1] == "Q" and number.isascii() and number.isdecimal() else -1


def _older(story: Story) -> Story:
    return replace(story, wait=story.wait - 1) if story.wait else replace(story, left=story.left - 1)


def _pick(texts: tuple[str, ...], bits: int) -> str:
    return texts[draw(bits, 9) % len(texts)]


_CALLED = {company.name: company.calling for company in COMPANIES}
CALLINGS = tuple(_CALLED.values())


def calling(market: str) -> str:
    """Give the name that headlines use."""
    return _CALLED.get(market, market)
