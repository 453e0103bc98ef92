// How help looks.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <vector>

namespace cfck::tools {

// Holds what the help of a command says beside its description and its options.
struct HelpPage {
  // This follows the name of the command in its usage, for each way to call it: "IN [OUT]". Empty:
  // follows from the positional arguments.
  std::vector<std::string> usage;
  // The options that --help shows, in this order; empty: all of them. --help-all shows all options
  // in any case, by their groups, so that a new one needs no entry here.
  std::vector<std::string> first_options;
  std::string examples;  // lines
  // --help-all alone shows these: further paragraphs of the description, and further examples.
  std::string details;
  std::string more_examples;
};

// Breaks descriptions at the width of the terminal, which CLI11 leaves to the terminal.
class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter();

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;

  HelpPage page;

 private:
  // `indent` is the column at which descriptions begin.
  std::string entry(const std::string& name, const std::string& description,
                    std::size_t indent) const;
  std::string paragraphs(const std::string& text) const;
  std::string first_options(const CLI::App& app) const;
  std::string all_options(const CLI::App& app) const;

  std::size_t n_columns_;
};

// Returns the page of a command, to fill or to read. Requires: the formatter of `app` is a
// HelpFormatter.
HelpPage& help_page(const CLI::App& app);
// Returns what follows the name of the command, for each way to call it.
std::vector<std::string> usage_of(const CLI::App& app);

// The names of groups of options. Options are in the group that set_group() named last.
inline constexpr const char* kOptionsGroup = "Options";
inline constexpr const char* kHelpGroup = "Help";
inline constexpr const char* kMessagesGroup = "Messages";
inline constexpr const char* kResourcesGroup = "Resources";
inline constexpr const char* kBasesGroup = "Files that are stored against others";
void set_group(CLI::App& app, const std::string& group);
// Returns the groups in the order in which --help-all shows them.
std::vector<std::string> groups_of(const CLI::App& app);

}  // namespace cfck::tools
