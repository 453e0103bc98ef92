"""scripts/checks/namespaces.py finds what is in the namespace of another room."""

import pytest

GOOD = {
    "base/text.hpp": "namespace cfck::detail {\n}  // namespace cfck::detail\n",
    "base/simt/warp.cuh": "namespace cfck::simt {\n",
    "codec/kernels.cpp": "namespace cfck::codec {\nnamespace cpu_v4 {\n",
    "encode/registry/codecs.cpp": "namespace cfck::codec {\n",
    "format/read/reader.cpp": "namespace cfck {\nnamespace format {\n",
    "tools/report/page.cpp": "namespace cfck::tools::report {\nnamespace {\nnamespace fs = std;\n",
    "tests/a_test.cpp": "namespace cfck::anything {\n",
}


def test_rooms_with_their_own_namespaces_pass(tree, run):
    assert run("namespaces", tree(GOOD)) == []


@pytest.mark.parametrize(
    ("path", "text", "room"),
    [
        ("base/text.hpp", "\nnamespace cfck::codec {\n", "detail"),
        ("codec/kernels.cpp", "\nnamespace cfck::format {\n", "codec"),
        ("encode/rules.cpp", "\nnamespace cfck::codec {\n", "encode"),
        ("format/read/reader.cpp", "\nnamespace model {\n", "format"),
    ],
)
def test_namespaces_of_other_rooms(tree, run, path, text, room):
    [line] = run("namespaces", tree(GOOD | {path: text}))
    assert line.startswith(f"{path}:2: is in namespace ")
    assert line.endswith(f"that of this room is cfck::{room}")
