"""scripts/checks/headers.py finds headers that lean on what is included before them."""

import json
import platform

LANES = "#include <immintrin.h>\ninline __m512i zero() { return _mm512_setzero_si512(); }\n"


def test_headers_that_lack_an_include(tree, run):
    folder = tree({"base/good.hpp": "#pragma once\n#include <string>\nstd::string text();\n"})
    if platform.machine() == "x86_64":
        tree({"base/lanes_v4_vbmi.hpp": LANES})
    assert run("headers", folder) == []
    tree({"base/bad.hpp": "#pragma once\n\nstd::string text();\n"})
    (line,) = run("headers", folder)
    assert line.startswith("base/bad.hpp:3: does not compile alone: ")
    assert line.endswith("include what declares it")
    assert run("headers", folder) == [line]  # what failed is not remembered


def test_a_header_is_compiled_again_when_what_it_includes_changes(tree, run):
    folder = tree({"base/a.hpp": '#include "base/b.hpp"\nB b();\n', "base/b.hpp": "struct B {};\n"})
    assert run("headers", folder) == []
    remembered = json.loads((folder / "build/checks/headers.json").read_text())
    assert set(remembered) == {"base/a.hpp", "base/b.hpp"}
    tree({"base/b.hpp": "struct C {};\n"})
    (line,) = run("headers", folder)
    assert line.startswith("base/a.hpp:2: does not compile alone")


def test_a_header_that_its_source_includes_first_is_left_to_the_build(tree, run):
    header = "#pragma once\nstd::string text();\n"
    folder = tree({"base/a.hpp": header, "base/a.cpp": '// Text.\n#include "base/a.hpp"\n'})
    assert run("headers", folder) == []
    for before in ("#include <string>\n", "#define TEXT\n", '#include "base/b.hpp"\n'):
        tree({"base/b.hpp": "", "base/a.cpp": f'{before}#include "base/a.hpp"\n'})
        (line,) = run("headers", folder)
        assert line.startswith("base/a.hpp:2: does not compile alone")
