"""The lossless chunks of the vectors."""

import pathlib

import reference_container as container

VECTORS = pathlib.Path(__file__).resolve().parents[3] / "spec" / "vectors"


def files(but: str = "none"):
    """But those whose names begin so."""
    for path in sorted(VECTORS.glob("*.cfck")):
        if not path.name.startswith(but):
            yield container.File(path.read_bytes(), container.Limits())


def lossless_payloads(but: str = "none", stage: int | None = None):
    """(dtype name, number of elements, payload) of every lossless chunk, or of those that
    have this entropy stage."""
    for file in files(but):
        for record in file.records:
            if record.codec != 1 or stage not in (None, record.entropy):
                continue
            dtype = container.DTYPES[record.dtype][0]
            if record.kind == container.PACKED:
                start = file.packs[record.pack][0] + record.payload[0]
                payload = bytes(file.data[start : start + record.payload[1]])
                yield dtype, record.n_elems, payload
            for i, (offset, length, _) in enumerate(record.extents):
                n_elems = min(record.chunk_elems, record.n_elems - i * record.chunk_elems)
                yield dtype, n_elems, bytes(file.data[offset + 12 : offset + length])
