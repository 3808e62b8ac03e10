"""BayBE and Ax, asked for rows of a table, in an environment of their own.

python benchmarks/outside/_laboratory_peers.py --install [--python3 PATH]
"""

import argparse
import json
import logging
import subprocess
import sys
import time
import warnings
from pathlib import Path

ENVIRONMENT = Path(__file__).parent / ".venv-laboratory"
REQUIREMENTS = ("baybe==0.15.0", "ax-platform==1.3.1")


def asked(method, X, y, start, n_ask, seed):
    """Rows measured, the starts first, and seconds an ask; None without the environment."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        return None
    task = {"method": method, "X": X.to_dict("list"), "y": y.tolist(), "start": start, "n_ask": n_ask, "seed": seed}
    done = subprocess.run([python, __file__, "--serve"], input=json.dumps(task), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found = json.loads(done.stdout.splitlines()[-1])
    return found["rows"], found["seconds"]


def baybe(X, y, start, n_ask):
    """Its campaign with the default recommender; labels are one-hot, numbers discrete."""
    from baybe import Campaign
    from baybe.objectives import SingleTargetObjective
    from baybe.parameters import CategoricalParameter, NumericalDiscreteParameter
    from baybe.searchspace import SearchSpace
    from baybe.targets import NumericalTarget

    parameters = [
        NumericalDiscreteParameter(name, sorted(set(X[name])))
        if X[name].dtype.kind in "if"
        else CategoricalParameter(name, sorted(set(X[name])), encoding="OHE")
        for name in X
    ]
    space = SearchSpace.from_dataframe(X, parameters)
    campaign = Campaign(space, SingleTargetObjective(NumericalTarget("y")))
    campaign.add_measurements(X.iloc[start].assign(y=y[start]))
    rows = list(start)
    row_of = {tuple(row): k for k, row in enumerate(X.itertuples(index=False, name=None))}
    for _ in range(n_ask):
        x = campaign.recommend(1)
        rows.append(row_of[tuple(x[X.columns].iloc[0])])
        campaign.add_measurements(x[list(X.columns)].assign(y=y[rows[-1]]))
    return rows


def ax(X, y, start, n_ask):
    """Its client with the default strategy; of what it asks for, the nearest row that is not measured."""
    import numpy as np
    from ax.api.client import Client
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

    is_mixture = all(X[name].dtype.kind == "f" for name in X) and np.allclose(X.sum(axis=1), 1)
    # The last part of a mixture follows from the others.
    names = list(X.columns[:-1] if is_mixture else X.columns)
    parameters, constraints = [], []
    for name in names:
        values = sorted(set(X[name]))
        if is_mixture:
            parameters.append(RangeParameterConfig(name=name, parameter_type="float", bounds=(0.0, 1.0)))
        elif X[name].dtype.kind in "if":
            kind = "float" if X[name].dtype.kind == "f" else "int"
            parameters.append(ChoiceParameterConfig(name=name, values=values, parameter_type=kind, is_ordered=True))
        else:
            parameters.append(ChoiceParameterConfig(name=name, values=values, parameter_type="str", is_ordered=False))
    if is_mixture:
        constraints = [f"{' + '.join(names)} <= 1"]
    client = Client()
    client.configure_experiment(parameters=parameters, parameter_constraints=constraints)
    client.configure_optimization(objective="y")
    rows, plain = list(start), X[names].to_dict("records")
    for row in start:
        client.complete_trial(client.attach_trial(parameters=plain[row]), raw_data={"y": float(y[row])})
    spread = {name: float(np.ptp(X[name])) for name in names if X[name].dtype.kind in "if"}
    for _ in range(n_ask):
        [(trial, x)] = client.get_next_trials(max_trials=1).items()
        away = sum(
            np.abs(X[name] - x[name]) / spread[name] if name in spread else (X[name] != x[name]).astype(float)
            for name in names
        ).to_numpy(float, copy=True)
        away[rows] = np.inf
        rows.append(int(away.argmin()))
        client.complete_trial(trial, raw_data={"y": float(y[rows[-1]])})
    return rows


def serve():
    import numpy as np
    import pandas as pd
    import torch

    task = json.load(sys.stdin)
    torch.set_num_threads(1)
    torch.manual_seed(task["seed"])
    np.random.seed(task["seed"])  # noqa: NPY002 - what the peers use
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    X, y, begin = pd.DataFrame(task["X"]), np.array(task["y"]), time.process_time()
    rows = {"baybe": baybe, "ax": ax}[task["method"]](X, y, task["start"], task["n_ask"])
    print(json.dumps({"rows": rows, "seconds": (time.process_time() - begin) / task["n_ask"]}))


def install(python3):
    subprocess.run([python3, "-m", "venv", ENVIRONMENT], check=True)
    subprocess.run([ENVIRONMENT / "bin" / "pip", "install", "--quiet", *REQUIREMENTS], check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--python3", default=sys.executable)
    arguments = parser.parse_args()
    if arguments.install:
        install(arguments.python3)
    elif arguments.serve:
        serve()
