"""Chains of bases, and where the reference decoder looks for them: spec/format.md, section 5.6."""

import os

import pytest
import reference_decoder
from broken_vectors import digest, pack_of
from layout import HAS_BASE, Entry, Layout
from reference_container import Limits
from reference_fields import Refused

N_BYTES = 5
DELTA, FLAG = 5, 16


def file_of(value: int, base: int | None = None, base_name: str | bytes = b"") -> bytes:
    """A file with one tensor of equal bytes, stored against one of others."""
    layout = Layout.empty()
    entry = Entry(b"t", [N_BYTES], [])
    content = bytes([value]) * N_BYTES
    entry.digest = digest(content)
    if base is not None:
        layout.required = HAS_BASE
        layout.base_name = base_name.encode() if isinstance(base_name, str) else base_name
        entry.codec, entry.entropy, entry.flags = DELTA, 2, FLAG
        entry.base_digest = digest(bytes([base]) * N_BYTES)
    pack_of([content if base is None else b"\0" + content], [entry], layout)
    layout.rehash()
    return layout.seal()


def value_of(path, **options) -> int:
    content = bytes(reference_decoder.read(path, **options).tensors["t"].data)
    assert content == content[:1] * N_BYTES
    return content[0]


def refusal_of(path, **options) -> Refused:
    with pytest.raises(Refused) as refused:
        reference_decoder.read(path, **options)
    return refused.value


def chain(folder, n_bases: int) -> None:
    """Files 0, 1, ..., each stored against the one before."""
    for i in range(n_bases + 1):
        of_base = (i - 1, f"{i - 1}.cfck") if i else ()
        (folder / f"{i}.cfck").write_bytes(file_of(i, *of_base))


def test_chains_have_a_limit(tmp_path):
    chain(tmp_path, 9)
    assert value_of(tmp_path / "8.cfck") == 8
    assert refusal_of(tmp_path / "9.cfck").code == "limit_exceeded"
    assert value_of(tmp_path / "9.cfck", limits=Limits(max_bases=9)) == 9
    assert refusal_of(tmp_path / "1.cfck", limits=Limits(max_bases=0)).code == "limit_exceeded"
    assert value_of(tmp_path / "0.cfck", limits=Limits(max_bases=0)) == 0


def test_a_gap_in_a_chain_is_named(tmp_path):
    chain(tmp_path, 4)
    (tmp_path / "1.cfck").unlink()
    refused = refusal_of(tmp_path / "4.cfck")
    assert refused.code == "missing_base" and "1.cfck" in refused.message


def test_other_values_anywhere_in_a_chain(tmp_path):
    chain(tmp_path, 4)
    (tmp_path / "1.cfck").write_bytes(file_of(77))
    refused = refusal_of(tmp_path / "4.cfck")
    assert refused.code == "missing_base" and "other values" in refused.message


@pytest.mark.parametrize("length", [1, 2, 5])
def test_circles(tmp_path, length):
    for i in range(length):
        before = (i - 1) % length
        (tmp_path / f"{i}.cfck").write_bytes(file_of(i, before, f"{before}.cfck"))
    refused = refusal_of(tmp_path / "0.cfck")
    assert refused.code == "missing_base" and "comes back" in refused.message


def test_a_circle_through_a_link(tmp_path):
    (tmp_path / "0.cfck").write_bytes(file_of(0, 0, "link.cfck"))
    os.symlink("0.cfck", tmp_path / "link.cfck")
    assert "comes back" in refusal_of(tmp_path / "0.cfck").message


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "../0.cfck", "sub/0.cfck", "sub\\0.cfck", "..", ".", "0.cfck\0", "n" * 256],
)
def test_names_that_lead_anywhere_are_refused_unread(tmp_path, name, monkeypatch):
    (tmp_path / "sub").mkdir()
    for folder in (tmp_path, tmp_path / "sub"):
        (folder / "0.cfck").write_bytes(file_of(0))
    path = tmp_path / "sub" / "1.cfck"
    data = file_of(1, 0, name)
    path.write_bytes(data)
    monkeypatch.setattr(reference_decoder, "read_base", None)
    assert refusal_of(path).code == "corrupt"
    with pytest.raises(Refused, match="corrupt"):
        reference_decoder.read_bytes(data, bases=reference_decoder.read_bytes(file_of(0)).tensors)


@pytest.mark.parametrize(
    "name",
    ["...", "..cfck", ".hidden", " ", "%2e%2e", "~", "-", "nul", "a:b", "caf\u00e9", "n" * 255,
     "line\nbreak", "\u202ekcfc", "*"],
)  # fmt: skip
def test_names_are_those_of_files(tmp_path, name):
    (tmp_path / name).write_bytes(file_of(0))
    (tmp_path / "file.cfck").write_bytes(file_of(1, 0, name))
    assert value_of(tmp_path / "file.cfck") == 1


def test_links_stay_in_their_folder(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "real.cfck").write_bytes(file_of(0))
    (tmp_path / "1.cfck").write_bytes(file_of(1, 0, "0.cfck"))
    os.symlink(tmp_path / "elsewhere" / "real.cfck", tmp_path / "0.cfck")
    refused = refusal_of(tmp_path / "1.cfck")
    assert refused.code == "missing_base" and "a link out" in refused.message
    (tmp_path / "0.cfck").unlink()
    (tmp_path / "real.cfck").write_bytes(file_of(0))
    os.symlink("real.cfck", tmp_path / "0.cfck")
    assert value_of(tmp_path / "1.cfck") == 1


def test_a_base_lies_beside_the_name_that_was_opened(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "1.cfck").write_bytes(file_of(1, 0, "0.cfck"))
    (tmp_path / "0.cfck").write_bytes(file_of(0))
    os.symlink(tmp_path / "elsewhere" / "1.cfck", tmp_path / "1.cfck")
    assert value_of(tmp_path / "1.cfck") == 1
    assert refusal_of(tmp_path / "elsewhere" / "1.cfck").code == "missing_base"


def test_wrong_files_of_the_name_are_passed_over(tmp_path):
    for name, content in (("a", file_of(9)), ("b", b"no file"), ("c", file_of(0))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.cfck").write_bytes(content)
    path = tmp_path / "a" / "1.cfck"
    path.write_bytes(file_of(1, 0, "0.cfck"))
    wrong, broken, right = (tmp_path / name for name in "abc")
    assert refusal_of(path).code == "missing_base"
    assert refusal_of(path, base_dirs=[broken]).code == "missing_base"
    assert value_of(path, base_dirs=[broken, right]) == 1
    (wrong / "0.cfck").unlink()
    assert refusal_of(path, base_dirs=[broken]).code == "truncated"
    (wrong / "0.cfck").mkdir()
    assert refusal_of(path).code == "missing_base"


def test_bases_of_the_caller_come_first(tmp_path):
    (tmp_path / "0.cfck").write_bytes(file_of(9))
    (tmp_path / "1.cfck").write_bytes(file_of(1, 0, "0.cfck"))
    right = reference_decoder.read_bytes(file_of(0)).tensors
    assert value_of(tmp_path / "1.cfck", bases=right) == 1
    assert refusal_of(tmp_path / "1.cfck", bases={}).code == "missing_base"
    assert value_of(tmp_path / "0.cfck", bases={}) == 9
