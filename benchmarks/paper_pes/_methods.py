"""The methods that the experiments compare."""

# Label and colour.
METHODS = {
    "pes": ("PES", "#0072B2"),
    "pes_nb": ("PES-NB", "#56B4E9"),
    "pes_path": ("PES, the path's mixed derivatives", "#4477AA"),
    "pes_zero": ("PES, zero mixed derivatives", "#66AADD"),
    "pes_stationary": ("PES, stationary on the boundary", "#88BBEE"),
    "es": ("ES", "#E69F00"),
    "jes": ("JES", "#009E73"),
    "mes": ("MES", "#CC79A7"),
    "ei": ("EI", "#D55E00"),
    "ei_10": ("EI, 10 draws", "#F0A070"),
    "thompson": ("Thompson", "#999999"),
    "random": ("random", "#BBBBBB"),
    "qPES": ("BoTorch qPES", "#000000"),
    "qPES_fine": ("BoTorch qPES, jitter 1e-8", "#555555"),
    "qJES": ("BoTorch qJES", "#117733"),
    "qMES": ("BoTorch qMES", "#882255"),
    "GIBBON": ("BoTorch GIBBON", "#AA4499"),
    "LogEI": ("BoTorch LogEI", "#5B3A1A"),
}
# In an environment of their own.
PEERS = ("qPES", "qPES_fine", "qJES", "qMES", "GIBBON", "LogEI")
