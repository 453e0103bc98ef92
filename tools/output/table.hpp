// Tables of results, which fit the terminal.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/output/console.hpp"

namespace cfck::tools {

struct TableColumn {
  std::string_view title;
  enum class Kind { kText, kName, kNumber } kind = Kind::kText;  // only names are shortened
  // Where lines do not fit the terminal, columns are left out, the least of these numbers first; 0:
  // never.
  unsigned goes = 0;
};

// Returns the cells of a row, one for each column.
using RowCells = std::function<std::vector<std::string>(std::size_t row)>;

// Prints a header and the rows. Where a line would not fit the terminal, columns are left out so
// that names stay whole, which a last line says; where that is not enough, names are shortened in
// the middle. In a pipe everything is there.
void print_table(Console& console, std::span<const TableColumn> columns, std::size_t n_rows,
                 const RowCells& cells);

// Passes the text on in parts: fresh memory for all of it takes longer than writing it.
void print_full(Console& console, std::string& text);

}  // namespace cfck::tools
