"""Rates and block lengths chosen on some seeds and judged on others, never the same.

`choose` plays all candidates side by side on tuning seeds; `report` plays the winner and what was
given on fresh ones. A seed is that of the agents' randomness and, where the problem draws its
losses from one (`problem.loss_seed`), of the losses: these are drawn anew from the same instance,
whose means, best arms and active agents stay. Losses that are stored or computed are the same
throughout; what was tuned has then seen them.
"""

from .choice import Choice, choose
from .fresh_seeds import Report, report
from .seeds import redraw

__all__ = ["Choice", "Report", "choose", "redraw", "report"]


def __dir__() -> list[str]:
    return __all__
