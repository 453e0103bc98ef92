"""Messages: one tensor as bare bytes."""

import pathlib
import re
import threading

import cfck
import cfck.torch
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
import torch

DTYPES = [
    np.bool_, np.uint8, np.int8, np.int16, np.uint16, np.float16, np.int32, np.uint32, np.float32,
    np.complex64, np.float64, np.int64, np.uint64, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float8_e8m0fnu, ml_dtypes.float4_e2m1fn, ml_dtypes.float6_e2m3fn,
    ml_dtypes.float6_e3m2fn,
]  # fmt: skip
TORCH_DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.float16, torch.int32, torch.float32,
    torch.complex64, torch.float64, torch.int64, torch.bfloat16, torch.float8_e5m2,
    torch.float8_e4m3fn,
]  # fmt: skip


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(0, 0.05, shape).astype(np.float32)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("shape", [(32,), (4, 8, 3, 2), (3, 0), ()])
def test_every_dtype_and_shape(dtype, shape):
    if shape == () and np.dtype(dtype).name.startswith(("float4", "float6")):
        pytest.skip("one value does not fill whole bytes")
    array = (weights(*shape) * 20).astype(dtype)
    message = cfck.encode_message(array)
    assert len(message) <= 16 + 8 * len(shape) + array.nbytes
    assert len(message) <= cfck.max_message_bytes(array)
    back = cfck.decode_message(message)
    assert back.dtype == array.dtype and back.shape == shape
    assert back.tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", TORCH_DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(32,), (4, 8, 3, 2), (3, 0), ()])
def test_every_dtype_of_torch(dtype, shape):
    tensor = torch.from_numpy(np.asarray(weights(*shape) * 20)).to(dtype)
    message = cfck.torch.encode_message(tensor)
    assert message == cfck.encode_message(tensor)
    back = cfck.torch.decode_message(message)
    assert back.dtype == dtype and back.shape == shape
    same = back.contiguous().reshape(-1).view(torch.uint8)
    assert torch.equal(same, tensor.contiguous().reshape(-1).view(torch.uint8))


@pytest.mark.parametrize("shape", [(32,), (4, 8, 3, 2), (3, 0), ()])
def test_the_header_says_what_is_in_it(shape):
    message = cfck.encode_message(weights(*shape))
    info = cfck.message_info(message)
    assert info == ("F32", shape, 4 * int(np.prod(shape)))
    assert info == cfck.MessageInfo(dtype="F32", shape=shape, n_bytes=info.n_bytes)
    assert cfck.message_info(torch.frombuffer(bytearray(message), dtype=torch.uint8)) == info
    assert cfck.message_info(message[: 8 + 8 * max(len(shape), 1)]) == info


def test_headers_that_are_none():
    message = cfck.encode_message(weights(32))
    for n_bytes in range(8):
        with pytest.raises(cfck.TruncatedError):
            cfck.message_info(message[:n_bytes])
    with pytest.raises(cfck.CfckError):
        cfck.message_info(b"PK\3\4" + bytes(100))
    with pytest.raises(TypeError):
        cfck.message_info(7)


def test_special_values_come_back_bit_for_bit():
    array = weights(1000)
    array[:6] = [np.nan, np.inf, -np.inf, -0.0, 1e-45, np.finfo(np.float32).max]
    assert cfck.decode_message(cfck.encode_message(array)).tobytes() == array.tobytes()
    back = cfck.decode_message(cfck.encode_message(array, max_sigma_error=1e-3))
    assert back[:3].tobytes() == array[:3].tobytes()


@pytest.mark.parametrize("chunk_elems", [0, 1000])
@pytest.mark.parametrize("bound", [1e-2, 1e-4])
def test_bounds_are_kept(bound, chunk_elems):
    array = weights(60, 100)
    message = cfck.encode_message(array, max_abs_error=bound, chunk_elems=chunk_elems)
    worst = np.abs(cfck.decode_message(message).astype(np.float64) - array).max()
    assert bound / 2 < worst <= bound
    assert len(message) < len(cfck.encode_message(array))
    ranges = cfck.encode_message(array, max_rel_error=1e-2, per_row=True)
    errors = np.abs(cfck.decode_message(ranges).astype(np.float64) - array).max(axis=1)
    assert (errors <= 1e-2 * np.ptp(array.astype(np.float64), axis=1)).all()


def test_memory_of_the_caller():
    array = weights(500)
    message = cfck.encode_message(array)
    for out in (
        bytearray(cfck.max_message_bytes(array)),
        np.empty(cfck.max_message_bytes(array), np.uint8),
        torch.empty(cfck.max_message_bytes(array), dtype=torch.uint8),
    ):
        n_bytes = cfck.encode_message(array, out=out)
        assert bytes(memoryview(np.asarray(out)))[:n_bytes] == message
        assert np.array_equal(cfck.decode_message(out[:n_bytes]), array)
    into = np.empty_like(array)
    assert cfck.decode_message(message, out=into) is into
    assert np.array_equal(into, array)
    columns = torch.empty(500, 2)[:, 0]
    assert cfck.decode_message(message, out=columns) is columns
    assert np.array_equal(columns.numpy(), array)


def test_memory_with_gaps_is_copied():
    array = weights(40, 50)
    for strided in (array[:, ::2], array.T, array[::-1], array[None, :, 3]):
        assert np.array_equal(cfck.decode_message(cfck.encode_message(strided)), strided)
    tensor = torch.from_numpy(array)
    for view in (tensor[:, ::2], tensor.T, tensor[3:, 1], tensor.expand(3, 40, 50)):
        assert torch.equal(cfck.torch.decode_message(cfck.torch.encode_message(view)), view)
    swapped = array.astype(">f4")
    assert np.array_equal(cfck.decode_message(cfck.encode_message(swapped)), array)


def test_misuse():
    array = weights(100)
    message = cfck.encode_message(array)
    with pytest.raises(cfck.UnsupportedError, match="spectral"):
        cfck.encode_message(array, codec="spectral")
    with pytest.raises(cfck.InvalidArgumentError):
        cfck.encode_message(array.astype(np.int32), max_abs_error=1)
    with pytest.raises(cfck.InvalidArgumentError, match="codec"):
        cfck.encode_message(array, codec="zip")
    with pytest.raises(TypeError, match="max_abs_error"):
        cfck.encode_message(array, max_abs_eror=1)
    with pytest.raises(TypeError, match="level is str"):
        cfck.encode_message(array, level=3)
    with pytest.raises(cfck.InvalidArgumentError, match="may take 424 bytes"):
        cfck.encode_message(array, out=bytearray(423))
    with pytest.raises(cfck.InvalidArgumentError, match="read-only"):
        cfck.encode_message(array, out=bytes(1000))
    with pytest.raises(cfck.UnsupportedError):
        cfck.encode_message(np.array(["text"]))
    with pytest.raises(cfck.InvalidArgumentError):
        cfck.torch.encode_message(array)
    with pytest.raises(cfck.UnsupportedError):
        cfck.torch.encode_message(torch.empty(3, device="meta"))
    with pytest.raises(cfck.InvalidArgumentError, match="out is"):
        cfck.decode_message(message, out=np.empty(99, np.float32))
    with pytest.raises(TypeError):
        cfck.decode_message("text")


def test_memory_of_the_caller_that_overlaps():
    memory = np.zeros(3000, np.uint8)
    array = memory[800:1200].view(np.float32)
    array[:] = weights(100)
    message = cfck.encode_message(array)
    for begin in (380, 800, 1199):
        with pytest.raises(cfck.InvalidArgumentError, match="overlaps the tensor"):
            cfck.encode_message(array, out=memory[begin : begin + 500])
    assert cfck.encode_message(array, out=memory[376:]) == len(message)  # 424 bytes at the most
    for other in (array[::-1], array[::3], torch.from_numpy(array)[::2]):  # copied before
        with pytest.raises(cfck.InvalidArgumentError, match="overlaps the tensor"):
            cfck.encode_message(other, out=memory[800:1300])
    memory[: len(message)] = np.frombuffer(message, np.uint8)
    with pytest.raises(cfck.InvalidArgumentError, match="overlaps the message"):
        cfck.decode_message(memory[: len(message)], out=memory[4:404].view(np.float32))
    data = cfck.compress(weights(100))
    memory[: len(data)] = np.frombuffer(data, np.uint8)
    with pytest.raises(cfck.InvalidArgumentError, match="overlaps the file"):
        cfck.decompress(memory[: len(data)], out=memory[:400].view(np.float32))
    assert bytes(memory[: len(data)]) == data
    data = safetensors.numpy.save({"": weights(100)})
    memory[: len(data)] = np.frombuffer(data, np.uint8)
    with pytest.raises(cfck.InvalidArgumentError, match="overlaps the file"):
        cfck.decompress(memory[: len(data)], out=memory[80:480].view(np.float32))


@pytest.mark.parametrize(
    "call",
    [
        lambda: cfck.encode_message(torch.eye(3).to_sparse()),
        lambda: cfck.encode_message(torch.zeros(3, dtype=torch.complex128)),
        lambda: cfck.max_message_bytes(torch.zeros(3, dtype=torch.complex128)),
        lambda: cfck.encode_message(torch.zeros(3, device="meta")),
        lambda: cfck.encode_message(np.array(["a"])),
        lambda: cfck.decode_message(cfck.encode_message(torch.zeros(3)), out=torch.zeros(4)),
        lambda: cfck.decode_message(cfck.encode_message(torch.zeros(3)), out=np.zeros(4)),
        lambda: cfck.compress(torch.eye(3).to_sparse()),
        lambda: cfck.decompress(cfck.compress(torch.zeros(3)), out=torch.zeros(4)),
    ],
)
def test_errors_of_a_tensor_without_a_name(call):
    with pytest.raises(cfck.CfckError, match="the tensor") as caught:
        call()
    assert "``" not in str(caught.value)


def test_damage_has_a_place():
    message = cfck.encode_message(weights(100))
    with pytest.raises(cfck.ChecksumError) as damaged:
        cfck.decode_message(message[:-1] + b"\0")
    assert damaged.value.byte_offset == len(message) - 8
    with pytest.raises(cfck.TruncatedError):
        cfck.decode_message(message[:7])
    with pytest.raises(cfck.TruncatedError):
        cfck.decode_message(b"")
    with pytest.raises(cfck.CorruptError):
        cfck.decode_message(b"not a message")
    huge = bytearray(message)
    huge[8:16] = (1 << 50).to_bytes(8, "little")
    with pytest.raises(cfck.CfckError):
        cfck.decode_message(huge)


def test_threads():
    arrays = [weights(20000 + i) for i in range(4)]
    expected = [cfck.encode_message(array) for array in arrays]
    wrong = []

    def work(number: int) -> None:
        for _ in range(20):
            message = cfck.encode_message(arrays[number])
            if message != expected[number] or not np.array_equal(
                cfck.decode_message(message), arrays[number]
            ):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_examples_of_the_page():
    page = pathlib.Path(__file__).parents[3] / "docs" / "messages.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
