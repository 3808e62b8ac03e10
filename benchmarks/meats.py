"""How many assays does asking save on real spectra?

    python benchmarks/meats.py              # 6 splits, a few minutes on two cores
    python benchmarks/meats.py --smallest   # one split, five asks

The demonstration (``make demo``) on more splits: 215 near-infrared spectra of meat, 5 random assays, 40 more chosen by
``learn="function"``, ``learn="hyperparameters"`` or at random; RMSE, NLL and coverage of 90 % intervals on 65 held-out
spectra. Every method has the same model, starts and splits, and no prior or scale is given. The
pictures are in ``results/meats/``.
"""

import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "tools"))

import numpy as np
from _report import RESULTS, parser, target, write
from demo import METRICS, curves_figure
from demo import main as demo


def main() -> None:
    arguments = parser(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as nowhere:
        folder = Path(nowhere) if arguments.smallest else RESULTS / "meats"
        results = demo(folder, n_splits=1, n_asks=5) if arguments.smallest else demo(folder, n_splits=6)
        # The trace is large, and every demonstration makes one.
        (folder / "meats_trace.nc").unlink()
    table = {}
    for metric in METRICS:
        mean, sd = results[metric].mean("split"), results[metric].std("split", ddof=int(results.sizes["split"] > 1))
        table[metric] = {
            str(m): {
                int(n): {"mean": float(mean.sel({"method": m, "n": n})), "sd": float(sd.sel({"method": m, "n": n}))}
                for n in results.n.to_numpy()
            }
            for m in results.method.to_numpy()
        }
    *asking, random = (row[int(results.n[-1])]["mean"] for row in table["rmse"].values())
    write(
        __doc__,
        quick=arguments.smallest,
        threads="one in each of two processes",
        targets=[
            target("RMSE at 45 assays, % fat, the better way of asking", min(asking), "<=", 0.6),
            target("the same, the worse way of asking over random", max(asking) / random, "<", 1),
        ],
        results={
            "n_splits": int(results.sizes["split"]),
            "table": table,
            **{metric: np.round(results[metric].to_numpy(), 4).tolist() for metric in METRICS},
        },
        figure=curves_figure(results),
    )


# Spawned workers import this file.
if __name__ == "__main__":
    main()
