"""Completion of the program in real shells, and its manual pages."""

import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time

import pytest

PROGRAM = pathlib.Path(sys.executable).parent / "cfck"
SHELLS = ("bash", "zsh", "fish")

# Names that a shell takes apart, obeys, or cannot show on one line.
ODD_NAMES = [
    "plain.cfck",
    "two words.cfck",
    'it\'s "quoted".cfck',
    "$(touch hacked).cfck",
    "`touch hacked`;touch hacked.cfck",
    "star*[a]?.cfck",
    "back\\slash&|<>.cfck",
    "line\nbreak.cfck",
    "-dash.cfck",
    "\u00e9\u4e2d.cfck",
]


def output(*arguments):
    return subprocess.run([PROGRAM, *arguments], check=True, capture_output=True, text=True).stdout


def options_in(help_text):
    """The long options that a help text of the program lists."""
    entries = re.findall(r"^  (-.*?)(?:  |$)", help_text, re.M)
    return {name for entry in entries for name in re.findall(r"--([\w-]+)", entry)}


def completed_options(command):
    """The long options that bash completes for a command."""
    names = {"inspect": "inspect|show"}.get(command, command)
    case = output("completion", "bash").split(f"    {names})\n")[1].split("esac\n")[1]
    return set(re.findall(r"--([\w-]+)", re.search(r"_cfck_words '([^']*)'", case)[1]))


def script_for(shell, folder):
    path = folder / f"completion.{shell}"
    path.write_text(output("completion", shell))
    return path


class Terminal:
    """An interactive bash on a terminal of its own, where cfck writes down its arguments."""

    def __init__(self, folder, script):
        environment = {**os.environ, "PS1": "ready$ ", "INPUTRC": "/dev/null", "TERM": "dumb"}
        environment["LC_ALL"] = "C.UTF-8"
        self.arguments = folder.parent / "arguments"
        self.process, self.descriptor = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], environment)
        self.command(f"source '{script}'")
        self.command(f"cfck() {{ printf '%s\\0' \"$@\" >'{self.arguments}'; }}")

    def command(self, line):
        os.write(self.descriptor, line.encode() + b"\n")
        self.wait()

    def has_arguments(self):
        return self.arguments.exists() and self.arguments.stat().st_size > 0

    def wait(self, seconds=10):
        """Until nothing more is shown."""
        seen = b""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.descriptor], [], [], 0.3)[0]:
                seen += os.read(self.descriptor, 65536)
            elif seen:
                break
        return seen

    def completed(self, typed):
        """The arguments of the command after `typed` and a tab."""
        self.arguments.unlink(missing_ok=True)
        os.write(self.descriptor, typed.encode() + b"\t")
        self.wait()
        os.write(self.descriptor, b"\n")
        # A busy machine may show nothing for long: what counts is that the command has run.
        end = time.monotonic() + 30
        while time.monotonic() < end and not self.has_arguments():
            self.wait(1)
        return self.arguments.read_text().split("\0")[:-1]

    def close(self):
        os.close(self.descriptor)
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)


@pytest.fixture
def bash(tmp_path):
    if shutil.which("bash") is None:
        pytest.skip("no bash")
    folder = tmp_path / "work"
    folder.mkdir()
    terminal = Terminal(folder, script_for("bash", tmp_path))
    yield folder, terminal
    terminal.close()


@pytest.mark.parametrize("name", ODD_NAMES)
def test_bash_completes_odd_names_as_they_are(bash, name):
    folder, terminal = bash
    (folder / name).touch()
    assert terminal.completed("cfck inspect ") == ["inspect", name]
    assert not (folder / "hacked").exists()


def test_options_that_python_parses_are_completed_too():
    def parsed(option):
        text = output("shrink", option)
        assert all(len(line) <= 80 for line in text.splitlines())
        return set(re.findall(r"--([a-z-]+)", text.split("options:")[1].split("example:")[0]))

    assert completed_options("shrink") - {"version"} == parsed("--help-all")
    page = output("help", "--man", "shrink")
    assert all(name.replace("-", "\\-") in page for name in parsed("--help-all"))
    assert output("help", "--all", "shrink") == output("shrink", "--help-all")
    # The first screen leaves out what few need.
    hidden = {"confidence", "encoding", "examples", "tokens", "threads"}
    assert parsed("--help-all") - parsed("--help") == hidden
    assert parsed("--help") < parsed("--help-all")
    assert len(output("shrink", "--help").splitlines()) <= 36


def test_bash_completes_commands_options_and_words(bash):
    folder, terminal = bash
    (folder / "sub").mkdir()
    (folder / "some.safetensors").touch()
    for typed, arguments in {
        "cfck ver": ["verify"],
        "cfck verify --de": ["verify", "--deep"],
        "cfck convert --ent": ["convert", "--entropy"],
        "cfck convert --entropy z": ["convert", "--entropy", "zstd"],
        "cfck convert --entropy=z": ["convert", "--entropy=zstd"],
        "cfck convert --output-dir s": ["convert", "--output-dir", "sub/"],
        "cfck convert so": ["convert", "some.safetensors"],
        "cfck convert --rule so": ["convert", "--rule", "so"],
        "cfck inspect verify --de": ["inspect", "verify", "--deep"],
        "cfck help ext": ["help", "extract"],
        "cfck completion f": ["completion", "fish"],
    }.items():
        assert terminal.completed(typed) == arguments, typed


@pytest.mark.parametrize("shell", SHELLS)
def test_shells_read_the_script(shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    script = script_for(shell, tmp_path)
    subprocess.run([shell, "-n", script], check=True)


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_have_every_command_and_option(shell):
    script = output("completion", shell)
    for command in output("help", "--list").split():
        assert re.search(rf"\b{command}\b", script), command
        if command == "shrink":  # its options are those of Python
            continue
        options = options_in(output("help", "--all", command))
        assert len(options) >= 3
        for option in options:
            assert option in script, (command, option)
        # The help of a command cannot lack an option that is completed, and so exists.
        assert options == completed_options(command), command


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish")
def test_fish_completes(tmp_path):
    script = script_for("fish", tmp_path)

    def completed(typed):
        command = f'source {script}; complete -C "{typed}"'
        run = subprocess.run(
            ["fish", "--no-config", "-c", command], capture_output=True, text=True, check=True
        )
        return [line.split("\t")[0] for line in run.stdout.splitlines()]

    assert completed("cfck ver") == ["verify"]
    assert completed("cfck verify --de") == ["--deep"]
    assert set(completed("cfck convert --entropy ")) == {"rans", "zstd"}
    assert completed("cfck-convert --entrop") == ["--entropy"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh")
def test_zsh_registers_the_functions(tmp_path):
    script = script_for("zsh", tmp_path)
    command = (
        f"autoload -Uz compinit; compinit -D -u; source {script}; "
        "print $_comps[cfck] $_comps[cfck-convert]; print $+functions[_cfck_convert]"
    )
    run = subprocess.run(["zsh", "-f", "-c", command], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["_cfck", "_cfck", "1"], run.stderr


def test_unknown_shells_are_refused():
    run = subprocess.run([PROGRAM, "completion", "tcsh"], capture_output=True, text=True)
    assert run.returncode == 2
    assert "bash, zsh and fish" in run.stderr


def pages():
    return ["", *output("help", "--list").split()] if PROGRAM.exists() else []


@pytest.mark.parametrize("command", pages())
def test_manual_pages(command, tmp_path):
    arguments = [command] if command else []
    page = output("help", "--man", *arguments)
    path = tmp_path / "page.1"
    path.write_text(page)
    if shutil.which("mandoc"):
        lint = subprocess.run(
            ["mandoc", "-T", "lint", "-W", "warning", path], capture_output=True, text=True
        )
        # Pages of a build have no date: the same sources give the same bytes.
        assert [line for line in lint.stdout.splitlines() if "missing date" not in line] == []
    if shutil.which("groff") is None:
        pytest.skip("no groff")
    shown = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", "-P-c", path], capture_output=True, text=True, check=True
    )
    assert shown.stderr == ""
    text = re.sub(r".\x08", "", shown.stdout)
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES"):
        assert f"\n{section}\n" in text, section
    if command != "shrink":  # its options are those of Python
        all_of_it = ["--all"] if command else []
        for option in options_in(output("help", *all_of_it, *arguments)):
            assert f"--{option}" in text, option
    assert "the output exists already" in " ".join(text.split())
