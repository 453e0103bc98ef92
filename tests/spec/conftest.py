import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
sys.path[:0] = [
    str(REPOSITORY / "spec"),
    str(REPOSITORY / "spec" / "vectors"),
    str(HERE / "encoders"),
    str(HERE / "cases"),
]
