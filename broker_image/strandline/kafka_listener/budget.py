"""What the connections of a listener share: bytes of requests and responses, waiting acks.

Called by `connection`: a connection that gets nothing stops reading until its turn comes.
"""

from __future__ import annotations

from collections.abc import Callable


class Budget:
    """A number of units, handed out in the order in which the connections ask.

    Invariant: used is the sum of what was granted and taken, less what was released. While nothing
    is used, a request of any size is granted, so that a bound below the greatest request cannot
    stop every client. Nothing is granted past a connection that waits: it would wait for ever.
    """

    def __init__(self, *, most: int) -> None:
        self.most = most
        self.used = 0
        self._waiting: dict[Share, int] = {}

    @property
    def waiting_count(self) -> int:
        """How many connections wait."""
        return len(self._waiting)

    def ask(self, share: Share, amount: int) -> bool:
        """Grant an amount now, or else later by `Share.granted`; False means later."""
        if self._waiting or not self._fits(amount):
            self._waiting.setdefault(share, amount)
            return False
        self.used += amount
        return True

    def take(self, amount: int) -> None:
        """Count an amount that is in use already."""
        self.used += amount

    def forget(self, share: Share) -> None:
        """Grant nothing to that share any more."""
        self._waiting.pop(share, None)
        self._grant()

    def release(self, amount: int) -> None:
        """Give an amount back, and grant what fits now."""
        self.used -= amount
        self._grant()

    def _fits(self, amount: int) -> bool:
        return not self.used or self.used + amount <= self.most

    def _grant(self) -> None:
        while self._waiting:
            share, amount = next(iter(self._waiting.items()))
            if not self._fits(amount):
                return
            del self._waiting[share]
            self.used += amount
            share.granted(amount)


class Share:
    """What one connection holds of a budget for its next request.

    wake is called when an amount was granted that had to wait; it must not use the budget.
    """

    def __init__(self, budget: Budget, wake: Callable[[], None]) -> None:
        self._budget = budget
        self._wake = wake
        self._held = 0

    def hold(self, amount: int) -> bool:
        """Hold an amount, or what is held already; False means that `wake` will come."""
        if not self._held and self._budget.ask(self, amount):
            self._held = amount
        return self._held > 0

    def granted(self, amount: int) -> None:
        """Hold an amount that had to wait."""
        self._held = amount
        self._wake()

    def resize(self, amount: int) -> None:
        """Hold another amount than was asked for: what it was for turned out smaller or larger."""
        held, self._held = self._held, amount
        if amount > held:
            self._budget.take(amount - held)
        elif amount < held:
            self._budget.release(held - amount)

    @property
    def held(self) -> int:
        """The amount held now."""
        return self._held

    def give_back(self) -> None:
        """Give back what is held, and wait no more."""
        held, self._held = self._held, 0
        if held:
            self._budget.release(held)
        else:
            self._budget.forget(self)
