"""What is fast, as ratios to plain NumPy and to what the machine can do at all."""

import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"

# A source tree on a borrowed machine is enough: nothing has to be installed but what is imported.
if find_spec("fedbandits") is None:
    sys.path.insert(0, str(SOURCES))
