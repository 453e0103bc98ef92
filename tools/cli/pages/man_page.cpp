#include "tools/cli/pages/man_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "cfck/version.hpp"

namespace cfck::tools {
namespace {

// Text that troff shows as it is: no escapes, no requests, hyphens that can be searched for.
std::string plain(std::string_view text) {
  std::string shown;
  bool begins_line = true;
  for (const char c : text) {
    if (begins_line && (c == '.' || c == '\'')) shown += "\\&";
    if (c == '\\') {
      shown += "\\e";
    } else if (c == '-') {
      shown += "\\-";
    } else if (c == '\'') {
      shown += "\\(aq";
    } else if (c == '`') {
      shown += "\\(ga";
    } else if (c == '^') {
      shown += "\\(ha";
    } else if (c == '~') {
      shown += "\\(ti";
    } else {
      shown += c;
    }
    begins_line = c == '\n';
  }
  return shown;
}

std::string page_name(const std::string& command) {
  return command.empty() ? "cfck" : "cfck-" + command;
}

std::string with_small_first(std::string text) {
  // Names of formats and abbreviations stay as they are.
  const bool is_word = text.size() > 1 && text[1] >= 'a' && text[1] <= 'z';
  if (is_word && text[0] >= 'A' && text[0] <= 'Z') text[0] = static_cast<char>(text[0] - 'A' + 'a');
  return text;
}

// The tag and the text of an entry.
void append_entry(std::string& page, const std::string& tag, const std::string& text) {
  page += ".TP\n" + tag + "\n" + plain(text) + "\n";
}

void append_arguments(std::string& page, const CommandDescription& command) {
  for (const ArgumentDescription& argument : command.positionals) {
    append_entry(page, ".I " + plain(argument.placeholder), argument.text);
  }
  page += ".SH OPTIONS\n";
  std::string group;
  for (const ArgumentDescription& argument : command.options) {
    if (argument.group != group) page += ".SS " + plain(argument.group) + "\n";
    group = argument.group;
    std::string tag;
    for (const std::string& name : argument.names) {
      tag += (tag.empty() ? "\\fB" : ", \\fB") + plain(name) + "\\fR";
    }
    if (!argument.placeholder.empty()) tag += " \\fI" + plain(argument.placeholder) + "\\fR";
    append_entry(page, tag, argument.text);
  }
}

void append_commands(std::string& page) {
  page += ".SH COMMANDS\n";
  for (const Command& command : all_commands()) {
    if (command.is_alias()) continue;
    append_entry(page, fmt::format("\\fB{}\\fR", plain(command.name)), command.summary);
  }
}

void append_end(std::string& page, const CommandDescription& command) {
  page += ".SH EXIT STATUS\n";
  for (const ExitCodeText& entry : exit_code_texts()) {
    append_entry(page, fmt::format("\\fB{}\\fR", entry.code), entry.meaning);
  }
  page += ".SH EXAMPLES\n.nf\n" + plain(command.examples) + ".fi\n";
  page += ".SH SEE ALSO\n";
  std::string others;
  if (!command.name.empty()) others = ".BR cfck (1)";
  for (const Command& other : all_commands()) {
    if (other.is_alias() || other.name == command.name) continue;
    others +=
        fmt::format("{}.BR {} (1)", others.empty() ? "" : ",\n", plain(page_name(other.name)));
  }
  page += others + "\n";
}

}  // namespace

std::string man_page(const CommandDescription& command) {
  const std::string name = page_name(command.name);
  std::string title = name;
  std::transform(title.begin(), title.end(), title.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  std::string page =
      fmt::format(".TH {} 1 \"\" \"cfck {}\" \"User Commands\"\n", plain(title), library_version());
  const std::string summary = command.summary.empty() ? "compressed and verified files of tensors"
                                                      : with_small_first(command.summary);
  page += fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n", plain(name), plain(summary));
  for (const std::string& way : command.usage) {
    if (&way != &command.usage.front()) page += ".br\n";
    page += fmt::format("\\fB{}\\fR {}\n", plain(command.program), plain(way));
  }
  page += ".SH DESCRIPTION\n";
  for (const char c : plain(command.text))
    page += c == '\n' ? std::string("\n.PP\n") : std::string(1, c);
  page += "\n";
  if (command.name.empty()) append_commands(page);
  append_arguments(page, command);
  append_end(page, command);
  return page;
}

}  // namespace cfck::tools
