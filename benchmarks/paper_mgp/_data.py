"""Real data by name: those of ``pymc_active.datasets``, and tables that are not ours to ship.

The latter are read from the folder named by the environment variable ``PYMC_ACTIVE_DATA``, comma-separated with a
header row, plain or gzipped; every column but the output is an input, and all are numbers.
"""

import os
from pathlib import Path

import pandas as pd

from pymc_active import datasets

# File and column of the output.
TABLES = {
    # Residuary resistance of 308 sailing yachts, by 6 numbers of hull and speed (UCI, Gerritsma et al. 1981).
    "yacht": ("yacht.csv", "residuary_resistance"),
    # Compressive strength of 1,030 samples of concrete in MPa, by 8 numbers of mixture and age (UCI, Yeh 1998).
    "concrete": ("concrete.csv", "compressive_strength_mpa"),
    # Violent crimes per head in 1,993 communities of the USA, by 96 numbers of census and police in [0, 1] (UCI): the
    # normalised file without the five columns that do not predict, the block LemasSwornFT to PolicBudgPerPop, and the
    # one record that is then incomplete.
    "communities_crime": ("communities_crime.csv", "ViolentCrimesPerPop"),
    # Acceleration of a simulated robot arm, by 32 inputs of which few matter (pumadyn-32nm, 8,192 rows).
    "pumadyn": ("pumadyn32nm.csv", "y"),
}


def read_data(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Inputs (n, D) and output (n,); a FileNotFoundError if a table is not there."""
    if name not in TABLES:
        return getattr(datasets, name)()
    file, target = TABLES[name]
    folder = os.environ.get("PYMC_ACTIVE_DATA")
    if not folder:
        raise FileNotFoundError(f"set the environment variable PYMC_ACTIVE_DATA to the folder that holds {file}")
    plain = Path(folder) / file
    table = pd.read_csv(plain if plain.exists() else f"{plain}.gz").astype(float)
    return table.drop(columns=target), table[target]
