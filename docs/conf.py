"""How Sphinx builds these pages: `make docs`."""

import os
import sys
from pathlib import Path

import pymc_active

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from results import NUMBERS  # noqa: E402

project = "pymc_active"
author = "the pymc_active developers"
version = release = pymc_active.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "gathered",
    "docstrings",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]
nitpicky = True
nitpick_ignore = [
    ("py:func", "scipy.linalg.subspace_angles"),
    # Inside of the package.
    ("py:class", "pymc_active.posterior.base.Posterior"),
]

html_theme = "furo"
html_title = f"pymc_active {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_copy_source = False
html_show_copyright = False

myst_enable_extensions = ["colon_fence", "dollarmath", "substitution"]
myst_heading_anchors = 3
myst_substitutions = NUMBERS

# Docstrings give types and shapes in words, which repeated in the signature only make it long.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

# Notebooks are committed without outputs. An execution is kept until the notebook changes; `make test`, where the
# package may have changed, forces one. One that fails is a warning with its traceback, and so fails the build.
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / "notebooks")
nb_execution_show_tb = True
nb_execution_timeout = 900
nb_execution_in_temp = True
nb_merge_streams = True
# A page calls the command line, which is beside this Python.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
