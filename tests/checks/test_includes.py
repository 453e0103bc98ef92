"""scripts/checks/includes.py finds every include that points the wrong way."""

import includes
import tree as sources

GOOD = {
    "include/cfck/a.hpp": "#include <vector>\n",
    "include/cfck/b.hpp": '#include "cfck/a.hpp"\n',
    "base/bytes.hpp": "#include <cfck/b.hpp>\n",
    "codec/codec.hpp": '#include "base/bytes.hpp"\n',
    "codec/direct/plan/plan.hpp": '#include "codec/codec.hpp"\n#include "codec/direct/steps.hpp"\n',
    "codec/direct/steps.hpp": "#include <zstd.h>\n",
    "tools/cli/main.cpp": '#include "codec/direct/steps.hpp"\n// #include "tests/support/a.hpp"\n',
    "tests/support/a.hpp": '#include "tools/cli/main.cpp"\n#include "b.hpp"\n',
    "tests/support/b.hpp": "",
}


def test_what_points_down_passes(tree, run):
    assert run("includes", tree(GOOD)) == []


def lines_with(tree, run, path, text):
    """Returns the messages about a tree in which one more file is wrong."""
    return run("includes", tree(GOOD | {path: text}))


def test_a_higher_room(tree, run):
    line, circle = lines_with(tree, run, "base/text.cpp", '\n#include "codec/codec.hpp"\n')
    assert line.startswith("base/text.cpp:2: base must not include codec/codec.hpp")
    assert "above" in line and "include each other: base, codec" in circle


def test_a_codec_that_includes_another(tree, run):
    for path in ("spectral/plan/a.cpp", "codec/lossless/a.cpp"):
        (line,) = lines_with(tree, run, path, '#include "codec/direct/steps.hpp"\n')
        assert "must not include codec/direct/steps.hpp" in line and "beside" in line
        (tree({}) / path).unlink()


def test_a_codec_that_encoding_knows(tree, run):
    known = "#include <memory>\nauto raw = CodecId::kRaw;\nauto any = CodecChoice::kAuto;\n"
    assert run("includes", tree(GOOD | {"encode/rules/a.cpp": known})) == []
    include = known + '#include "codec/direct/steps.hpp"\n'
    (line,) = lines_with(tree, run, "encode/rules/a.cpp", include)
    assert line.startswith(
        "encode/rules/a.cpp:4: includes codec/direct/steps.hpp: ask the registry"
    )
    for path in ("encode/rules/a.cpp", "format/write/a.cpp"):
        name = (
            known + "// CodecId::kDirect\nbool is(CodecId id) { return id == CodecId::kDirect; }\n"
        )
        (line,) = lines_with(tree, run, path, name)
        assert line.startswith(f"{path}:5: names CodecId::kDirect: ask the registry")
        (tree({}) / path).unlink()


def test_an_exception_that_is_none(tree, run):
    path = "format/container/index/errors.cpp"
    assert run("includes", tree(GOOD | {path: "auto id = CodecId::kDirect;\n"})) == []
    (line,) = lines_with(tree, run, path, "auto id = CodecId::kRaw;\n")
    assert line.startswith(f"{path}:1: it names no codec")


def test_tests_in_sources(tree, run):
    (line,) = lines_with(tree, run, "tools/cli/a.cpp", '#include "tests/support/b.hpp"\n')
    assert line.startswith("tools/cli/a.cpp:1: tests/support/b.hpp is a test")


def test_public_headers(tree, run):
    circle, line = lines_with(tree, run, "include/cfck/c.hpp", '#include "base/bytes.hpp"\n')
    assert "public headers do not include internal ones" in line
    assert "these folders include each other" in circle
    (line,) = lines_with(tree, run, "include/cfck/c.hpp", "#include <zstd.h>\n#include <memory>\n")
    assert line.startswith("include/cfck/c.hpp:1: public headers need the standard library only")


def test_files_without_a_room(tree, run):
    (line,) = lines_with(tree, run, "attic/a.cpp", "")
    assert line.startswith("attic/a.cpp:1: its folder is in no room")


def test_files_that_are_not_there(tree, run):
    (line,) = lines_with(tree, run, "base/text.cpp", '#include "base/gone.hpp"\n')
    assert line.startswith('base/text.cpp:1: there is no "base/gone.hpp"')


def test_circles_of_files(tree, run):
    files = {"base/x.hpp": '#include "base/y.hpp"\n', "base/y.hpp": '#include "base/x.hpp"\n'}
    (line,) = run("includes", tree(GOOD | files))
    assert line.startswith("base/x.hpp:1: these files include each other: base/x.hpp, base/y.hpp")


def test_circles_of_folders_in_one_room(tree, run):
    files = {
        "spectral/plan/a.hpp": '#include "spectral/chunk/b.hpp"\n#include "spectral/chunk/c.hpp"\n',
        "spectral/chunk/b.hpp": "",
        "spectral/chunk/c.hpp": '\n#include "spectral/plan/d.hpp"\n',
        "spectral/plan/d.hpp": "",
    }
    (line,) = run("includes", tree(GOOD | files))
    assert line.startswith("spectral/chunk/c.hpp:2: these folders include each other")
    assert line.endswith("one way out is not to include spectral/plan/d.hpp")


def test_every_room_is_there():
    for room in includes.LINES:
        assert (sources.REPOSITORY / room).is_dir(), room
