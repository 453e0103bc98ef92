// How help looks.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <vector>

namespace cfck::tools {

// Breaks descriptions at the width of the terminal, which CLI11 leaves to the terminal.
class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter();

  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;

 private:
  std::string entry(const std::string& name, const std::string& description) const;

  friend void set_usage(CLI::App& app, std::vector<std::string> ways);
  friend std::vector<std::string> usage_of(const CLI::App& app);

  std::size_t n_columns_;
  std::vector<std::string> ways_;
};

// Sets what follows the name of the command in its usage, for each way to call it:
// "IN [OUT]".
void set_usage(CLI::App& app, std::vector<std::string> ways);
// Returns these, or one that follows from the positional arguments.
std::vector<std::string> usage_of(const CLI::App& app);

}  // namespace cfck::tools
