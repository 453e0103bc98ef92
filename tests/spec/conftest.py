import pathlib
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "spec"), str(REPOSITORY / "spec" / "vectors")]
