"""Command line: ``python -m pymc_active demo``."""

import argparse


def main() -> None:
    """Read the command line."""
    import pymc_active

    parser = argparse.ArgumentParser(prog="python -m pymc_active", description=pymc_active.__doc__)
    parser.add_argument("--version", action="version", version=pymc_active.__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="choose samples of meat for the wet lab (about two minutes)")
    demo.add_argument("--output", default="demo_output", help="folder for pictures and trace")
    demo.add_argument("--splits", type=int, default=4)
    demo.add_argument("--asks", type=int, default=40)
    arguments = parser.parse_args()
    # Imported late: --version should not load PyMC's samplers and plots.
    from pymc_active.demo import main as run_demo

    run_demo(arguments.output, n_splits=arguments.splits, n_asks=arguments.asks)


if __name__ == "__main__":
    main()
