"""Faults of a cluster, each some times at other moments; the seeded sample among the slow tests does one of each.

    python tests/benchmarks/faults.py [--times 10] [--seed 0] [FAULT ...]

Prints a line for each, as it ends; exits with 1 if one did not hold what the tests say.
"""

import argparse
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from cluster_faults import FAULTS, PATIENT
from kills import own_home


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=", ".join(FAULTS))
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the first of each")
    options = parser.parse_args()
    failed = 0
    for name in options.faults or FAULTS:
        for seed in range(options.seed, options.seed + options.times):
            began = time.monotonic()
            try:
                with own_home() as folder:
                    what = FAULTS[name](folder, seed, PATIENT)
            except Exception:
                what, failed = f"FAILED: {traceback.format_exc()}", failed + 1
            print(f"{name:18} seed {seed:2} {time.monotonic() - began:5.0f} s  {what}", flush=True)
    print(f"{failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
