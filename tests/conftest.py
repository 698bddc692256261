"""Makes ``laws`` importable from every test, so that the families' tables are shared."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
