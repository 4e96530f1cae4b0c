"""`python -m benchmarks [NAME ...]`: print what was measured beside its bound; nothing is judged."""

import sys
from importlib import import_module
from pathlib import Path

AVAILABLE = sorted(p.stem for p in Path(__file__).parent.glob("*.py") if not p.stem.startswith("_"))

for name in sys.argv[1:] or AVAILABLE:
    if name not in AVAILABLE:
        sys.exit(f"no benchmark {name!r}; there are {', '.join(AVAILABLE)}")
    print(name)
    for what, value, bound in import_module(f"benchmarks.{name}").rows():
        print(f"  {value:10.3g}  {bound:<14} {what}", flush=True)
