#include "tools/output/table.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "tools/output/terminal.hpp"

namespace cfck::tools {
namespace {

using Cells = std::vector<std::string>;

// A column that is printed.
struct Printed {
  const TableColumn* column;
  std::size_t cell;
  std::size_t width;
};

void append_line(std::string& text, const Cells& cells, std::span<const Printed> columns) {
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const auto& [column, cell, width] = columns[i];
    const std::size_t n_columns = columns_of(cells[cell]);
    const std::size_t padding = width - std::min(n_columns, width);
    const bool is_number = column->kind == TableColumn::Kind::kNumber;
    if (i > 0) text += "  ";
    if (is_number) text.append(padding, ' ');
    text += n_columns <= width ? cells[cell] : shortened(cells[cell], width);
    if (!is_number && i + 1 < columns.size()) text.append(padding, ' ');
  }
  text += '\n';
}

std::size_t line_columns(std::span<const Printed> columns) {
  std::size_t n = 2 * (columns.size() - 1);
  for (const Printed& column : columns) n += column.width;
  return n;
}

void fit_terminal(std::vector<Printed>& columns) {
  constexpr std::size_t kFewestColumns = 12;
  const auto n_columns = terminal_columns(STDOUT_FILENO);
  if (!n_columns) return;
  while (line_columns(columns) > *n_columns) {
    auto first = columns.end();
    for (auto one = columns.begin(); one != columns.end(); ++one) {
      if (one->column->goes == 0) continue;
      if (first == columns.end() || one->column->goes < first->column->goes) first = one;
    }
    if (first == columns.end()) break;
    columns.erase(first);
  }
  for (Printed& one : columns) {
    const std::size_t n_needed = line_columns(columns);
    const bool is_name = one.column->kind == TableColumn::Kind::kName;
    if (!is_name || n_needed <= *n_columns || one.width <= kFewestColumns) continue;
    one.width -= std::min(n_needed - *n_columns, one.width - kFewestColumns);
  }
}

}  // namespace

void print_full(Console& console, std::string& text) {
  constexpr std::size_t kPartBytes = std::size_t{1} << 16;
  if (text.size() < kPartBytes) return;
  console.print(text);
  text.clear();
}

void print_table(Console& console, std::span<const TableColumn> columns, std::size_t n_rows,
                 const RowCells& cells) {
  Cells titles;
  std::vector<Printed> printed;
  for (const TableColumn& column : columns) {
    printed.push_back({&column, printed.size(), column.title.size()});
    titles.emplace_back(column.title);
  }
  for (std::size_t row = 0; row < n_rows; ++row) {
    const Cells line = cells(row);
    for (Printed& one : printed) one.width = std::max(one.width, columns_of(line[one.cell]));
  }
  fit_terminal(printed);
  std::string header;
  append_line(header, titles, printed);
  header.pop_back();
  console.print(console.bold(header) + "\n");
  std::string text;
  for (std::size_t row = 0; row < n_rows; ++row) {
    append_line(text, cells(row), printed);
    print_full(console, text);
  }
  console.print(text);
  if (printed.size() == columns.size()) return;
  const std::size_t n_left_out = columns.size() - printed.size();
  console.print(fmt::format("{} {} not fit the terminal; --json, a pipe or a wider one shows {}\n",
                            n_left_out, n_left_out == 1 ? "column does" : "columns do",
                            n_left_out == 1 ? "it" : "them"));
}

}  // namespace cfck::tools
