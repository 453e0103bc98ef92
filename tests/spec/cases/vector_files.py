"""The vectors of spec/vectors as the reference decoder reads them, with what they are stored
against."""

import json
import pathlib

import reference_decoder

VECTORS = pathlib.Path(reference_decoder.__file__).parent / "vectors"
MANIFEST = json.loads((VECTORS / "manifest.json").read_text())
BROKEN = json.loads((VECTORS / "broken" / "manifest.json").read_text())["broken"]


def base_of(entry) -> pathlib.Path | None:
    """The vector to give to a reader that cannot find it: the file names none or another folder."""
    if "base" not in entry or entry.get("base_name"):
        return None
    return VECTORS / entry["base"]


def read_vector(entry, folder: pathlib.Path = VECTORS) -> reference_decoder.Tensors:
    """Decodes the vector of an entry of a manifest. Raises Refused."""
    base = base_of(entry)
    bases = reference_decoder.read(base).tensors if base else None
    return reference_decoder.read(folder / entry["file"], bases=bases)
