#include "tools/output/listing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.hpp"
#include "cfck/archive.hpp"
#include "model/formats/archive_format.hpp"

namespace cfck::tools {
namespace {

std::string name_or_number(std::string_view name, unsigned id) {
  if (name == "unknown" || name == "UNKNOWN") return fmt::format("{}({})", name, id);
  return std::string(name);
}

std::string_view kind_name(RecordKind kind) {
  switch (kind) {
    case RecordKind::kChunked:
      return "chunked";
    case RecordKind::kPacked:
      return "packed";
    case RecordKind::kAlias:
      return "alias";
    case RecordKind::kDuplicate:
      return "duplicate";
  }
  return "unknown";
}

std::string_view kind_name(const ArchiveTensor& tensor) {
  if (tensor.record != nullptr) return kind_name(tensor.record->kind);
  return tensor.sharing == Sharing::kNone     ? "plain"
         : tensor.sharing == Sharing::kMemory ? kind_name(RecordKind::kAlias)
                                              : kind_name(RecordKind::kDuplicate);
}

TensorRow row_of(const ArchiveTensor& tensor, std::span<const ArchiveTensor> tensors) {
  TensorRow row;
  row.name = tensor.name;
  row.hidden = tensor.hidden;
  row.kind = kind_name(tensor);
  if (tensor.sharing != Sharing::kNone && tensor.base < tensors.size()) {
    const ArchiveTensor& base = tensors[tensor.base];
    row.shares_with = base.hidden ? fmt::format("(hidden record {})", tensor.base) : base.name;
  }
  const CodecId codec = tensor.record != nullptr ? tensor.record->codec : CodecId::kRaw;
  const EntropyId entropy = tensor.record != nullptr ? tensor.record->entropy : EntropyId::kNone;
  row.dtype = name_or_number(dtype_name(tensor.dtype), static_cast<unsigned>(tensor.dtype));
  row.shape = tensor.shape;
  row.codec = name_or_number(codec_name(codec), static_cast<unsigned>(codec));
  row.entropy = name_or_number(entropy_name(entropy), static_cast<unsigned>(entropy));
  row.n_elems = tensor.n_elems;
  row.decoded_bytes = tensor.n_bytes;
  row.stored_bytes = tensor.stored_bytes;
  if (tensor.record == nullptr) return row;
  row.digest = hexadecimal(tensor.record->digest);
  if (tensor.record->base_digest) {
    row.against_base = *tensor.record->base_digest == tensor.record->digest
                           ? AgainstBase::kUnchanged
                           : AgainstBase::kDifference;
  }
  row.error = tensor.record->error;
  return row;
}

double bits_each(std::uint64_t n_bytes, std::uint64_t n_elems) {
  return n_elems == 0 ? 0 : 8 * static_cast<double>(n_bytes) / static_cast<double>(n_elems);
}

bool is_plain(char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; }

void append_quoted(std::string& text, const std::string& value) {
  if (std::all_of(value.begin(), value.end(), is_plain)) {
    text += '"';
    text += value;
    text += '"';
  } else {
    text += nlohmann::json(value).dump(-1, ' ', true);
  }
}

void append_varint(std::string& text, std::uint64_t number) {
  char digits[20];
  char* const end = std::to_chars(digits, std::end(digits), number).ptr;
  text.append(digits, static_cast<std::size_t>(end - digits));
}

// Appends the fewest digits that give the same number; never an integer.
void append_fraction(std::string& text, double number) {
  char digits[32];
  char* const end = std::to_chars(digits, std::end(digits), number).ptr;
  text.append(digits, static_cast<std::size_t>(end - digits));
  if (std::none_of(digits, end, [](char c) { return c == '.' || c == 'e'; })) {
    text += ".0";
  }
}

void append_quality(std::string& text, const RecordError& error) {
  const Target& target = error.quality->target;
  if (target.kind != TargetKind::kNone) {
    text += ",\"target_kind\":";
    append_quoted(text, std::string(target_kind_name(target.kind)));
    text += ",\"target\":";
    append_fraction(text, target.value);
    text += target.whole_file ? ",\"whole_file\":true" : ",\"whole_file\":false";
  }
  text += ",\"rms\":";
  append_fraction(text, error.quality->rms);
  text += ",\"nmse_db\":";
  const double decibels = nmse_decibels(error);
  if (std::isfinite(decibels)) {
    append_fraction(text, decibels);
  } else {
    text += "\"-inf\"";
  }
}

void append_base(std::string& text, const TensorRow& row) {
  if (row.against_base != AgainstBase::kNo) {
    text += ",\"base\":";
    append_quoted(text, std::string(against_base_name(row.against_base)));
  }
  if (row.n_changed) {
    text += ",\"n_changed\":";
    append_varint(text, *row.n_changed);
  }
}

}  // namespace

std::string_view against_base_name(AgainstBase how) {
  switch (how) {
    case AgainstBase::kNo:
      return "";
    case AgainstBase::kUnchanged:
      return "unchanged";
    case AgainstBase::kDifference:
      return "difference";
  }
  return "";
}

double TensorRow::bits_per_weight() const { return bits_each(stored_bytes, n_elems); }

double TensorRow::ratio() const {
  return stored_bytes == 0 ? 0
                           : static_cast<double>(decoded_bytes) / static_cast<double>(stored_bytes);
}

void RowTotals::add(const TensorRow& row) {
  stored_bytes += row.stored_bytes;
  if (row.hidden) return;
  n_records += 1;
  n_elems += row.n_elems;
  decoded_bytes += row.decoded_bytes;
  if (row.error) loss.add(*row.error, row.n_elems, row.stored_bytes);
}

void BaseTotals::add(const TensorRow& row) {
  if (row.hidden || !row.shares_with.empty()) return;
  ++(row.against_base == AgainstBase::kUnchanged    ? n_unchanged
     : row.against_base == AgainstBase::kDifference ? n_differences
                                                    : n_whole);
}

std::string BaseTotals::text() const {
  std::string text = fmt::format("{} unchanged, {} as {}", n_unchanged, n_differences,
                                 n_differences == 1 ? "a difference" : "differences");
  if (n_whole > 0)
    text += fmt::format(", {} by {}", n_whole, n_whole == 1 ? "itself" : "themselves");
  return text;
}

double RowTotals::bits_per_weight() const { return bits_each(stored_bytes, n_elems); }

Result<Listing> list_tensors(const std::string& path, const ReadingOptions& reading) {
  model::ModelFiles files;
  files.paths.push_back(path);
  std::vector<model::StrayTensor> none;
  return list_tensors(files, 0, reading, none);
}

Result<Listing> list_tensors(const model::ModelFiles& files, std::size_t number,
                             const ReadingOptions& reading,
                             std::vector<model::StrayTensor>& strays) {
  ArchiveOptions options;
  CFCK_TRY_ASSIGN(options.decode, reading.decode());
  const std::string& path = files.paths[number];
  CFCK_TRY_ASSIGN(const auto archive, model::open_archive_file(path, options));
  const auto tensors = archive->tensors();
  CFCK_TRY_ASSIGN(const std::vector<bool> is_of_model,
                  model::tensors_of_model(files, number, tensors));
  const ArchiveFile& file = archive->files().front();
  Listing listing;
  listing.path = path;
  listing.format = file.format;
  listing.file_bytes = file.n_bytes;
  if (file.reader != nullptr) {
    listing.format_version = file.reader->format_version();
    listing.generation = file.reader->generation();
    listing.dead_bytes = file.reader->dead_bytes();
    listing.needs_base = file.reader->needs_base();
    listing.misses_base = listing.needs_base && file.reader->chain_length() == 0;
    listing.base_name = file.reader->base_name();
  }
  listing.metadata = archive->metadata();
  listing.rows.reserve(tensors.size());
  for (const ArchiveTensor& tensor : tensors) {
    if (is_of_model[tensor.index]) listing.rows.push_back(row_of(tensor, tensors));
  }
  const auto left_out = model::stray_tensors(files, number, tensors, is_of_model);
  strays.insert(strays.end(), left_out.begin(), left_out.end());
  return listing;
}

void append_row_json(std::string& text, const TensorRow& row, const std::string& shard) {
  text += "{\"name\":";
  append_quoted(text, row.name);
  text += ",\"kind\":";
  append_quoted(text, row.kind);
  if (row.hidden) text += ",\"hidden\":true";
  if (!row.shares_with.empty()) {
    text += ",\"shares_with\":";
    append_quoted(text, row.shares_with);
  }
  text += ",\"dtype\":";
  append_quoted(text, row.dtype);
  text += ",\"shape\":[";
  for (std::size_t i = 0; i < row.shape.size(); ++i) {
    if (i > 0) text += ',';
    append_varint(text, row.shape[i]);
  }
  text += "],\"codec\":";
  append_quoted(text, row.codec);
  text += ",\"entropy\":";
  append_quoted(text, row.entropy);
  text += ",\"n_elems\":";
  append_varint(text, row.n_elems);
  text += ",\"decoded_bytes\":";
  append_varint(text, row.decoded_bytes);
  text += ",\"stored_bytes\":";
  append_varint(text, row.stored_bytes);
  text += ",\"bits_per_weight\":";
  append_fraction(text, row.bits_per_weight());
  if (row.error) {
    text += ",\"bound_kind\":";
    append_quoted(text, std::string(bound_kind_name(row.error->bound.kind)));
    if (row.error->bound.kind != BoundKind::kNone) {
      text += ",\"bound\":";
      append_fraction(text, row.error->bound.value);
      text += row.error->bound.per_row ? ",\"per_row\":true" : ",\"per_row\":false";
    }
    text += ",\"max_abs_error\":";
    append_fraction(text, row.error->max_abs_error);
    text += ",\"rmse\":";
    append_fraction(text, row.error->rmse);
    if (row.error->quality) append_quality(text, *row.error);
  }
  append_base(text, row);
  if (!row.digest.empty()) {
    text += ",\"digest\":";
    append_quoted(text, row.digest);
  }
  if (!shard.empty()) {
    text += ",\"shard\":";
    append_quoted(text, shard);
  }
  text += '}';
}

void add_totals_json(nlohmann::ordered_json& json, const RowTotals& totals) {
  json["n_records"] = totals.n_records;
  json["n_elems"] = totals.n_elems;
  json["decoded_bytes"] = totals.decoded_bytes;
  json["stored_bytes"] = totals.stored_bytes;
  json["bits_per_weight"] = totals.bits_per_weight();
  json["lossy"] = totals.loss.json();
}

std::string hexadecimal(const Digest& digest) {
  return detail::hexadecimal(std::span<const std::uint8_t>(digest));
}

}  // namespace cfck::tools
