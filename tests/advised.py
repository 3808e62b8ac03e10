"""What there is to say of a model."""

import re

from pymc_active.models.advice import advise_on


def said(model, pattern):
    """Whether there is one sentence of advice, which matches."""
    texts = advise_on(model)
    return len(texts) == 1 and re.search(pattern, texts[0]) is not None
