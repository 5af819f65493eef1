"""Published figures equal what the stored predictions give."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_recompute_agrees_with_the_documents():
    done = subprocess.run([sys.executable, ROOT / "benchmarks" / "recompute.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "digits" in done.stdout
