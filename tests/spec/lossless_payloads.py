"""The lossless chunks of the vectors."""

import pathlib

import reference_container as container

VECTORS = pathlib.Path(__file__).resolve().parents[2] / "spec" / "vectors"


def files(but: str = ""):
    for path in sorted(VECTORS.glob("*.cfck")):
        if path.name != but:
            yield container.File(path.read_bytes(), container.Limits())


def lossless_payloads(but: str = ""):
    """(dtype name, number of elements, payload) of every lossless chunk."""
    for file in files(but):
        for record in file.records:
            if record.codec != 1:
                continue
            dtype = container.DTYPES[record.dtype][0]
            if record.kind == container.PACKED:
                start = file.packs[record.pack][0] + record.payload[0]
                payload = bytes(file.data[start : start + record.payload[1]])
                yield dtype, record.n_elems, payload
            for i, (offset, length, _) in enumerate(record.extents):
                n_elems = min(record.chunk_elems, record.n_elems - i * record.chunk_elems)
                yield dtype, n_elems, bytes(file.data[offset + 12 : offset + length])
