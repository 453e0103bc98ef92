"""scripts/checks/sizes.py finds what is too long, and nothing else."""

import cpp
import pytest

STEP = "  step();\n"


def test_what_is_allowed_passes(tree, run):
    folder = tree(
        {
            "base/a.cpp": "void f() {\n" + STEP * 58 + "}\n",
            "base/b.py": "def f():\n"
            + '    """Said\n'
            + "\n" * 99
            + '    """\n'
            + "    g()\n" * 57,
            "base/table.inc": "1,\n" * 501,
            "build/c.cpp": "int i;\n" * 501,
        }
        | {f"base/{i}.hpp": "" for i in range(23)}
    )
    assert run("sizes", folder) == []


def test_long_functions(tree, run):
    folder = tree(
        {
            "base/a.cpp": "int i;\n\nvoid A::f() const {\n" + STEP * 59 + "}\n",
            "base/b.py": "class A:\n    def f(self):\n" + "        g()\n" * 60,
        }
    )
    lines = run("sizes", folder)
    assert len(lines) == 2
    assert lines[0].startswith("base/a.cpp:3: A::f has 61 lines, at most 60")
    assert lines[1].startswith("base/b.py:2: f has 61 lines, at most 60")


def test_long_files(tree, run):
    folder = tree({"base/a.cpp": "int i;\n" * 501, "base/b.py": "i = 1\n" * 501})
    lines = run("sizes", folder)
    assert lines[0].startswith("base/a.cpp:501: the file has 501 lines, at most 500")
    assert lines[1].startswith("base/b.py:501: the file has 501 lines, at most 500")


def test_full_folders(tree, run):
    lines = run("sizes", tree({f"base/{i}.cpp": "" for i in range(27)}))
    assert lines == ["base:1: the folder has 27 sources, at most 26 are allowed: make rooms in it"]


def test_forms_for_cpu_levels_count_once(tree, run):
    levels = {f"base/k_{level}.cpp": "" for level in ("baseline", "neon", "v3", "v4", "v4_vbmi")}
    assert run("sizes", tree(levels | {f"base/{i}.cpp": "" for i in range(25)})) == []
    (line,) = run("sizes", tree(levels | {f"base/{i}.cpp": "" for i in range(26)}))
    assert line.startswith("base:1: the folder has 27 sources")


def test_braces_that_do_not_match(tree, run):
    (line,) = run("sizes", tree({"base/a.cpp": "void f() {\n"}))
    assert line.startswith("base/a.cpp:1: cannot be read: the brace of line 1 is not closed")


FUNCTIONS = {
    "void f() {}": ["f"],
    "int A::f(int a = 3) const noexcept {}": ["A::f"],
    "template <class T, int n = 2>\nrequires(n > 1)\nauto f(T t) -> int {}": ["f"],
    "A::A(int a) : Base{a}, b_(a), c_{1, {2}} {}": ["A::A"],
    "A::A() : b_(B{1, {}, {}}) {}": ["A::A"],
    "A::~A() {}": ["A::~A"],
    "struct stat f(int a) { struct stat info {}; return info; }": ["f"],
    "bool A::operator()(int a) const {}": ["A::operator()"],
    "B operator+(B a, B b) { return {a, b}; }": ["operator+"],
    "struct alignas(64) A { int a{3}; void f() {} };": ["f"],
    "class [[nodiscard]] A : public B<decltype(b())> { public: void f() {} };": ["f"],
    "namespace a::b { namespace { void f() {} } }": ["f"],
    'extern "C" { void f() {} }': ["f"],
    "TEST(Suite, Case) { [] { int a; }(); }": ["TEST(Suite, Case)"],
    "const std::array<int, 2> a = {1, 2}; int b{3}; enum class C { kD };": [],
    "const auto f = [](int a) { return a; };": ["a function"],
    "#define CFCK_F(x) void x() { \\\n }\nCFCK_F(a);\n": [],
    "#if A\nvoid f(int a) {\n#else\nvoid f() {\n#endif\n}": ["f"],
    "void f() { auto a = R\"x({ \" })x\"; char b = '{'; int c = 1'000; /* { */ } // {": ["f"],
    'void f() { puts("\\"{"); }': ["f"],
}


@pytest.mark.parametrize("text", FUNCTIONS)
def test_functions_of_cpp(text):
    assert [found.name for found in cpp.functions(text)] == FUNCTIONS[text]


def test_lines_of_functions():
    text = "int a;\n\n// f\nstatic\nvoid f(\n  int b) {\n}\n\nvoid g() {}\n"
    assert [(f.first_line, f.last_line) for f in cpp.functions(text)] == [(4, 7), (9, 9)]
