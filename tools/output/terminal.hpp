// These functions measure terminals, and text that has to fit them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace cfck::tools {

// Returns the width of the terminal behind the descriptor: what the environment variable COLUMNS
// says, else what the terminal says, else 80. Nothing for anything but a terminal.
std::optional<std::size_t> terminal_columns(int descriptor);

// Returns the number of columns that UTF-8 text takes: one for each character.
std::size_t columns_of(std::string_view text);

// Replaces the middle of UTF-8 text that takes more columns by "...", so that both ends of a long
// name can be seen. Requires: n_columns >= 5.
std::string shortened(std::string_view text, std::size_t n_columns);

}  // namespace cfck::tools
