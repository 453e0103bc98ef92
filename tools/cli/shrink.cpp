#include "tools/cli/shrink.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "tools/cli/arguments.hpp"
#include "tools/cli/help_formatter.hpp"

namespace cfck::tools {
namespace {

// An empty first entry of the path stands for the working directory, from which nothing is
// imported.
constexpr const char* kScript = R"(import sys
sys.path[:] = [entry for entry in sys.path if entry]
try:
    from cfck.__main__ import main
except ImportError as error:
    print(f'cfck shrink: error: {sys.executable} has no Python package cfck that can shrink models '
          f'({error}); install it with torch and transformers, or set CFCK_PYTHON to a Python that '
          'has them', file=sys.stderr)
    sys.exit(6)
sys.exit(main(sys.argv[1:]))
)";

std::string folder_of_program() {
  char self[PATH_MAX];
  const ssize_t n_bytes = ::readlink("/proc/self/exe", self, sizeof self);
  if (n_bytes <= 0 || n_bytes == static_cast<ssize_t>(sizeof self)) return {};
  std::string folder(self, static_cast<std::size_t>(n_bytes));
  folder.resize(folder.rfind('/') + 1);
  return folder;
}

// A program installed by pip lies beside the Python that it was installed for.
std::string python() {
  if (const char* named = std::getenv("CFCK_PYTHON"); named != nullptr && *named != '\0') {
    return named;
  }
  const std::string folder = folder_of_program();
  if (!folder.empty()) {
    for (const char* name : {"python3", "python"}) {
      if (::access((folder + name).c_str(), X_OK) == 0) return folder + name;
    }
  }
  return "python3";
}

}  // namespace

int run_shrink(const std::vector<std::string>& arguments, Console& console) {
  const std::string program = python();
  std::vector<std::string> words = {program, "-c", kScript, "shrink"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(program.c_str(), pointers.data());
  return console.fail({ErrorCode::kUnsupported,
                       fmt::format("models are shrunk in Python, and {} cannot be started: {}; "
                                   "install it with cfck, torch and transformers, or set "
                                   "CFCK_PYTHON",
                                   escaped(program), std::strerror(errno)),
                       {},
                       {}});
}

// Python parses the arguments, and has the help text.
void set_up_shrink(CLI::App& app, Choices& choices) {
  app.description(
      "Store a model of transformers in the smallest file that keeps an outcome: calibrates, "
      "compensates errors, and judges on text that it held back. Runs in Python, where torch and "
      "transformers have to be installed.");
  app.set_help_flag();
  app.set_help_all_flag();
  app.prefix_command();
  set_footer(app, "  cfck shrink my-model/ small/ --keep cosine=0.99 --text corpus.txt\n");
  app.callback([&app, &choices] {
    choices.run = [&app](Console& console) { return run_shrink(app.remaining(), console); };
  });
}

void describe_shrink(CLI::App& app) {
  const auto add = [&app](const char* name, const char* value, const char* text) {
    app.add_option(name)->description(text)->option_text(value);
  };
  help_page(app).usage = {"FOLDER OUTPUT --keep NAME=VALUE --text FILE",
                          "FOLDER OUTPUT --size SIZE"};
  add("FOLDER", " ", "The folder of the model: config.json, tokeniser and weights");
  add("OUTPUT", " ", "The new folder: model.cfck, and copies of the other files");
  add("--keep", "NAME=VALUE",
      "The goal: cosine=0.99, kl=0.05, agreement=0.98 or perplexity=1.02; may be repeated");
  add("--size", "SIZE", "Instead of --keep: the maximum size of the file, such as 60MB");
  add("--bits-per-weight", "X",
      "Instead of --keep: the maximum size in bits per weight, with everything in the file");
  add("--text", "FILE",
      "Sample text from the domain of the model, a few hundred lines or more; may be repeated");
  app.add_flag("-f,--force")->description("Replace OUTPUT if it exists");
  set_group(app, "Evaluation");
  add("--confidence", "C",
      "Probability with which --keep has to hold for all text of this kind, 0.5 to 0.999; "
      "default: 0.95");
  add("--encoding", "NAME", "Text encoding; default: utf-8");
  add("--examples", "N",
      "Number of sentences, or of pieces of --tokens for models that generate text, taken evenly "
      "from the text; default: 320");
  add("--tokens", "N", "Maximum number of tokens per example; default: 128");
  set_group(app, kResourcesGroup);
  add("--threads", "N", "Number of threads of the codec; default: all CPUs");
  set_group(app, kMessagesGroup);
  app.add_flag("-q,--quiet")->description("Print nothing but errors");
  app.add_flag("--json")->description("Print the result as JSON");
  set_group(app, kHelpGroup);
  app.add_flag("-h,--help")->description("Show the help and exit");
  app.add_flag("--help-all")->description("Show the help with every option and exit");
}

}  // namespace cfck::tools
