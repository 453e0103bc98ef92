#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "base/glob.hpp"
#include "base/text.hpp"
#include "model/folder/find_model.hpp"
#include "model/folder/model_files.hpp"
#include "model/folder/model_folder.hpp"
#include "tools/inspect/changes.hpp"
#include "tools/inspect/inspect.hpp"
#include "tools/output/interrupt.hpp"
#include "tools/output/left_out.hpp"
#include "tools/output/listing.hpp"
#include "tools/output/table.hpp"

namespace cfck::tools {
namespace {

using Json = nlohmann::ordered_json;

// One path of the command line: a file, or the shards of a folder.
struct Model {
  std::string path;
  std::vector<Listing> files;
  model::ModelFiles found;                 // and what is beside them
  std::vector<model::StrayTensor> strays;  // that the index does not take from its shards

  RowTotals totals() const {
    RowTotals sum;
    for (const Listing& file : files) {
      for (const TensorRow& row : file.rows) sum.add(row);
    }
    return sum;
  }
  std::uint64_t sum(std::uint64_t Listing::*member) const {
    std::uint64_t total = 0;
    for (const Listing& file : files) total += file.*member;
    return total;
  }
};

struct ShownRow {
  const Listing* file;
  const TensorRow* row;
};

Result<Model> read_files(const std::string& path, const ShowOptions& options, bool shows_progress) {
  Model model{path, {}, {}, {}};
  CFCK_TRY_ASSIGN(model.found, model::model_files(path));
  for (std::size_t i = 0; i < model.found.paths.size(); ++i) {
    auto listing = list_tensors(model.found, i, options.reading, model.strays);
    if (!listing) return with_path(listing.error(), model.found.paths[i]);
    if (options.changes) {
      const auto counted = count_changes(options.reading, shows_progress, *listing);
      if (!counted) return with_path(counted.error(), model.found.paths[i]);
    }
    model.files.push_back(std::move(*listing));
  }
  return model;
}

Result<Model> read_model(const std::string& path, const ShowOptions& options, bool shows_progress) {
  Model model;
  CFCK_TRY(model::open_unchanged(path, [&]() -> Result<void> {
    CFCK_TRY_ASSIGN(model, read_files(path, options, shows_progress));
    return {};
  }));
  if (options.strict) CFCK_TRY(model::check_all_named(model.found));
  return model;
}

bool matches(const TensorRow& row, const std::vector<std::string>& filters) {
  return filters.empty() ||
         std::any_of(filters.begin(), filters.end(),
                     [&](const std::string& pattern) { return matches_glob(pattern, row.name); });
}

// Names ascend, sizes descend: the largest is what users look for.
bool comes_before(SortKey key, const TensorRow& a, const TensorRow& b) {
  switch (key) {
    case SortKey::kFile:
      return false;
    case SortKey::kName:
      return a.name < b.name;
    case SortKey::kDType:
      return a.dtype < b.dtype;
    case SortKey::kCodec:
      return a.codec < b.codec;
    case SortKey::kElems:
      return a.n_elems > b.n_elems;
    case SortKey::kRaw:
      return a.decoded_bytes > b.decoded_bytes;
    case SortKey::kStored:
      return a.stored_bytes > b.stored_bytes;
    case SortKey::kRatio:
      return a.ratio() > b.ratio();
    case SortKey::kBits:
      return a.bits_per_weight() > b.bits_per_weight();
  }
  return false;
}

std::vector<ShownRow> select_rows(const Model& model, const ShowOptions& options) {
  std::vector<ShownRow> rows;
  for (const Listing& file : model.files) {
    for (const TensorRow& row : file.rows) {
      if (matches(row, options.filters)) rows.push_back({&file, &row});
    }
  }
  if (options.sort != SortKey::kFile) {
    std::stable_sort(rows.begin(), rows.end(), [&](const ShownRow& a, const ShownRow& b) {
      return comes_before(options.sort, *a.row, *b.row);
    });
  }
  return rows;
}

RowTotals totals_of(const std::vector<ShownRow>& rows) {
  RowTotals totals;
  for (const ShownRow& shown : rows) totals.add(*shown.row);
  return totals;
}

// Which columns are shown beside those that every file has.
struct ShownColumns {
  bool base = false;
  bool changes = false;
  bool error = false;
  bool quality = false;
};

// Columns go first that say least: the ratio follows from the bits, raw bytes from dtype and shape.
using Kind = TableColumn::Kind;
std::vector<TableColumn> columns_of(const ShownColumns& shown) {
  std::vector<TableColumn> columns = {{"name", Kind::kName},       {"dtype", Kind::kText, 5},
                                      {"shape", Kind::kText, 6},   {"codec", Kind::kName},
                                      {"raw", Kind::kNumber, 2},   {"stored", Kind::kNumber},
                                      {"ratio", Kind::kNumber, 1}, {"bits/weight", Kind::kNumber}};
  if (shown.base) columns.push_back({"base", Kind::kText, 7});
  if (shown.changes) columns.push_back({"changed", Kind::kNumber});
  if (shown.error) columns.push_back({"bound", Kind::kText, 3});
  if (shown.error) columns.push_back({"max err", Kind::kNumber});
  if (shown.quality) columns.push_back({"NMSE dB", Kind::kNumber, 4});
  return columns;
}

std::string shape_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

// "1234 (0.6 %)"
std::string changed_text(const TensorRow& row) {
  if (!row.n_changed) return "-";
  if (*row.n_changed == 0) return "0";
  const double share = static_cast<double>(*row.n_changed) / static_cast<double>(row.n_elems);
  return fmt::format("{} ({:.2g} %)", *row.n_changed, 100 * share);
}

std::string base_text(const TensorRow& row) {
  const std::string_view how = against_base_name(row.against_base);
  return how.empty() ? "-" : std::string(how);
}

std::vector<std::string> cells_of(const TensorRow& row, const ShownColumns& columns) {
  std::string codec = row.codec;
  if (!row.shares_with.empty()) codec = row.kind + " of " + escaped(row.shares_with);
  std::vector<std::string> cells = {
      row.hidden         ? "(hidden)"
      : row.name.empty() ? "\"\""
                         : escaped(row.name),
      row.dtype,
      shape_text(row.shape),
      std::move(codec),
      std::to_string(row.decoded_bytes),
      std::to_string(row.stored_bytes),
      row.stored_bytes == 0 ? "-" : fmt::format("{:.3f}", row.ratio()),
      row.n_elems == 0 ? "-" : fmt::format("{:.2f}", row.bits_per_weight())};
  if (columns.base) cells.push_back(base_text(row));
  if (columns.changes) cells.push_back(changed_text(row));
  if (columns.error) cells.push_back(row.error ? asked_text(*row.error) : "-");
  if (columns.error) cells.push_back(row.error ? short_number(row.error->max_abs_error) : "-");
  if (columns.quality) {
    const bool has_quality = row.error && row.error->quality;
    cells.push_back(has_quality ? decibel_text(nmse_decibels(*row.error)) : "-");
  }
  return cells;
}

void print_rows(Console& console, const std::vector<ShownRow>& rows) {
  const auto any = [&](const auto& has) {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const ShownRow& shown) { return has(*shown.row); });
  };
  ShownColumns shown;
  shown.base = any([](const TensorRow& row) { return row.against_base != AgainstBase::kNo; });
  shown.changes = any([](const TensorRow& row) { return row.n_changed.has_value(); });
  shown.error = any([](const TensorRow& row) { return row.error.has_value(); });
  shown.quality = any([](const TensorRow& row) { return row.error && row.error->quality; });
  print_table(console, columns_of(shown), rows.size(),
              [&](std::size_t i) { return cells_of(*rows[i].row, shown); });
}

// "lossless 101 (74.1 MB), raw 2 (1.02 kB), duplicate 1"
std::string codec_mix(const Model& model) {
  struct Share {
    std::uint64_t count = 0;
    std::uint64_t stored_bytes = 0;
  };
  std::map<std::string, Share> mix;
  for (const Listing& file : model.files) {
    for (const TensorRow& row : file.rows) {
      Share& share = mix[row.shares_with.empty() ? row.codec : row.kind];
      share.count += 1;
      share.stored_bytes += row.stored_bytes;
    }
  }
  std::string text;
  for (const auto& [codec, share] : mix) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", codec, share.count);
    if (share.stored_bytes > 0) text += fmt::format(" ({})", human_bytes(share.stored_bytes));
  }
  return text;
}

std::string totals_text(const RowTotals& totals) {
  return fmt::format("{} {}, {} values, {} -> {}", totals.n_records,
                     totals.n_records == 1 ? "tensor" : "tensors", human_count(totals.n_elems),
                     human_bytes(totals.decoded_bytes), human_bytes(totals.stored_bytes));
}

std::string base_name_text(const Listing& file) {
  if (file.base_name.empty()) {
    return file.misses_base ? "not named, to be given with --base" : "as given";
  }
  return escaped(file.base_name) + (file.misses_base ? ", which is missing" : "");
}

// "base  step1000.cfck: 40 unchanged, 108 differences (0.61 % of their values changed)"
std::string base_line(const Model& model) {
  std::set<std::string> names;
  BaseTotals totals;
  std::uint64_t n_changed = 0;
  std::uint64_t n_compared = 0;
  for (const Listing& file : model.files) {
    if (!file.needs_base) continue;
    names.insert(base_name_text(file));
    for (const TensorRow& row : file.rows) {
      totals.add(row);
      n_changed += row.n_changed.value_or(0);
      n_compared += row.n_changed ? row.n_elems : 0;
    }
  }
  if (names.empty()) return {};
  std::string text = fmt::format("  base  {}: {}", fmt::join(names, ", "), totals.text());
  if (n_compared > 0) {
    text += fmt::format("; {} of {} values changed ({:.3g} %)", n_changed, n_compared,
                        100 * static_cast<double>(n_changed) / static_cast<double>(n_compared));
  }
  return text + "\n";
}

void print_summary(Console& console, const Model& model) {
  const Listing& first = model.files.front();
  const bool has_version = !first.format_version.empty();
  std::string what(first.format);
  if (has_version) what += " " + first.format_version;
  if (model.files.size() > 1) {
    what += fmt::format(", {} shards", model.files.size());
  } else if (has_version) {
    what += first.generation == 0   ? ", never updated"
            : first.generation == 1 ? ", updated once"
                                    : fmt::format(", updated {} times", first.generation);
  }
  console.print(fmt::format("{}  {}\n", console.bold(escaped(model.path)), what));
  const RowTotals totals = model.totals();
  console.print("  " + totals_text(totals));
  if (totals.stored_bytes > 0) {
    const double ratio =
        static_cast<double>(totals.decoded_bytes) / static_cast<double>(totals.stored_bytes);
    console.print(
        fmt::format(" (ratio {:.3f}, {:.2f} bits per weight)", ratio, totals.bits_per_weight()));
  }
  console.print(fmt::format("\n  file {}", human_bytes(model.sum(&Listing::file_bytes))));
  if (const auto dead = model.sum(&Listing::dead_bytes); dead > 0) {
    console.print(fmt::format(", {} of it unused (cfck compact frees it)", human_bytes(dead)));
  }
  console.print("\n");
  if (has_version && totals.n_records > 0) {
    console.print(fmt::format("  codecs  {}\n", codec_mix(model)));
  }
  console.print(totals.loss.text("  ") + base_line(model));
  for (const auto& [key, value] : first.metadata) {
    console.print(fmt::format("  metadata  {} = {}\n", escaped(key), escaped(value)));
  }
}

void print_text(Console& console, const Model& model, const ShowOptions& options) {
  print_summary(console, model);
  const std::vector<ShownRow> rows = select_rows(model, options);
  if (!options.filters.empty()) {
    console.print(fmt::format("  selected  {}\n", totals_text(totals_of(rows))));
  }
  if (!console.quiet() && !rows.empty()) {
    console.print("\n");
    print_rows(console, rows);
  }
}

Json file_json(const Listing& file) {
  Json json{{"file", json_text(file.path)}, {"format", file.format}};
  if (!file.format_version.empty()) {
    json["format_version"] = file.format_version;
    json["generation"] = file.generation;
    json["dead_bytes"] = file.dead_bytes;
  }
  json["file_bytes"] = file.file_bytes;
  if (file.needs_base) {
    json["base"] = json_text(file.base_name);
    json["base_is_missing"] = file.misses_base;
    BaseTotals against_base;
    for (const TensorRow& row : file.rows) against_base.add(row);
    json["n_unchanged"] = against_base.n_unchanged;
    json["n_differences"] = against_base.n_differences;
  }
  RowTotals totals;
  for (const TensorRow& row : file.rows) totals.add(row);
  add_totals_json(json, totals);
  json["metadata"] = file.metadata;
  return json;
}

void add_unread(Json& json, const Model& model) {
  if (model.found.index.empty()) return;
  json["index"] = json_text(model.found.index);
  json["unnamed_shards"] = Json::array();
  for (const std::string& path : model.found.unnamed) {
    json["unnamed_shards"].push_back(json_text(path));
  }
  json["stray_tensors"] = Json::array();
  for (const model::StrayTensor& stray : model.strays) {
    json["stray_tensors"].push_back({{"file", json_text(stray.path)}, {"name", stray.name}});
  }
}

void print_json(Console& console, const Model& model, const ShowOptions& options) {
  Json json{{"schema_version", 1}};
  if (model.files.size() == 1) {
    json.update(file_json(model.files.front()));
    json["file"] = json_text(model.path);
  } else {
    json["file"] = json_text(model.path);
    json["format"] = model.files.front().format;
    json["dead_bytes"] = model.sum(&Listing::dead_bytes);
    json["file_bytes"] = model.sum(&Listing::file_bytes);
    add_totals_json(json, model.totals());
    for (const Listing& file : model.files) json["shards"].push_back(file_json(file));
  }
  add_unread(json, model);
  const std::vector<ShownRow> rows = select_rows(model, options);
  if (!options.filters.empty()) add_totals_json(json["selected"], totals_of(rows));
  std::string text = json.dump(-1, ' ', true);
  text.back() = ',';
  text += "\"records\":[";
  const bool sharded = model.files.size() > 1;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i > 0) text += ',';
    const std::string& path = rows[i].file->path;
    append_row_json(text, *rows[i].row,
                    sharded ? json_text(path.substr(path.rfind('/') + 1)) : std::string());
    print_full(console, text);
  }
  console.print(text + "]}\n");
}

// `separate` says whether something was printed before.
int show_model(Console& console, const std::string& path, const ShowOptions& options,
               bool& separate) {
  const auto model = read_model(path, options, console.shows_progress());
  if (const int number = interrupt_signal(); !model && number != 0) return kExitSignal + number;
  if (!model) return console.fail(model.error(), path);
  for (const std::string& warning : model::unread_warnings(model->found, model->strays)) {
    console.warn(warning);
  }
  if (console.json()) {
    print_json(console, *model, options);
    return kExitOk;
  }
  if (std::exchange(separate, true)) console.print("\n");
  print_text(console, *model, options);
  return kExitOk;
}

// True for a path after the first that is no file, but looks like the name or pattern that other
// commands take after FILE.
bool is_name_of_tensor(const ShowOptions& options, const std::string& path) {
  std::error_code ignored;
  return &path != options.paths.data() && options.filters.empty() &&
         std::filesystem::exists(options.paths.front(), ignored) &&
         !std::filesystem::exists(path, ignored) && path.find('/') == std::string::npos &&
         std::none_of(model::file_formats().begin(), model::file_formats().end(),
                      [&](const model::ArchiveFormat* format) {
                        return model::has_suffix_of(path, *format);
                      });
}

}  // namespace

int run_show(const ShowOptions& options, Console& console) {
  int code = kExitOk;
  bool separate = false;
  for (const std::string& path : options.paths) {
    if (is_name_of_tensor(options, path)) {
      const Error error =
          not_found("there is no such file; to show the tensors of this name, give --filter " +
                    escaped(path));
      code = worse_exit_code(code, console.fail(error, path));
      continue;
    }
    const auto models = model::all_models(path);
    if (!models) code = worse_exit_code(code, console.fail(models.error(), path));
    if (!models) continue;
    warn_of_files_left_out(console, path, "not shown");
    for (const std::string& model : *models) {
      code = worse_exit_code(code, show_model(console, model, options, separate));
    }
  }
  return code;
}

}  // namespace cfck::tools
