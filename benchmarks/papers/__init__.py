"""The tables and figures of the papers, made again: ``python -m benchmarks.papers PAPER``.

A module a paper: :mod:`paper_000`, :mod:`paper_001`, :mod:`paper_002`, :mod:`paper_003`. Each says
what it runs, on which tables, and what was printed; :mod:`exhibits` runs it, keeps what was found
and prints the paper's figure beside ours with the spread between releases and a verdict.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# The benchmarks are scripts beside one another, and import one another by their bare names.
sys.path.insert(0, str(Path(__file__).parents[1]))
# Optimal transport would load TensorFlow where it is installed, which takes longer than a run.
os.environ.setdefault("POT_BACKEND_DISABLE_TENSORFLOW", "1")
