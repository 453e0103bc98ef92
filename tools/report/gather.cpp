#include "tools/report/gather.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "tools/inspect/bands/scan.hpp"
#include "tools/inspect/reading_bar.hpp"
#include "tools/measure/bound_check.hpp"
#include "tools/output/loss.hpp"
#include "tools/report/contents/layers.hpp"

namespace cfck::tools::report {
namespace {

constexpr std::uint64_t kPassesOfReport = 3;  // over the values of a tensor, as a rule

class Gatherer {
 public:
  Gatherer(const TensorSet& set, const TensorSet* reference, const ReportOptions& options,
           ReadingBar& bar)
      : set_(set), reference_(reference), options_(options), bar_(bar) {}

  Result<ReportData> run() {
    list();
    choose_pictures();
    for (std::size_t i = 0; i < data_.records.size() && !options_.index_only; ++i) {
      CFCK_TRY(read(data_.records[i], has_picture_[i]));
    }
    if (reference_ != nullptr && !options_.common) find_missing();
    for (RecordReport& record : data_.records) add_sums(record);
    data_.layers = group_layers(data_.records);
    return std::move(data_);
  }

 private:
  void list() {
    data_.index_only = options_.index_only;
    data_.metadata = set_.metadata();
    for (const ArchiveFile& file : set_.files()) {
      data_.file_bytes += file.n_bytes;
      data_.n_files += 1;
      data_.format = file.format;
      if (file.reader != nullptr) data_.format_version = file.reader->format_version();
    }
    std::map<std::string, CodecShare> codecs;
    for (const StoredTensor& tensor : set_.tensors()) {
      RecordReport record;
      record.tensor = &tensor;
      record.codec = codec_name(tensor.record != nullptr ? tensor.record->codec : CodecId::kRaw);
      record.shares_with = set_.base_name(tensor);
      data_.n_elems += tensor.n_elems;
      data_.decoded_bytes += tensor.n_bytes;
      data_.stored_bytes += tensor.stored_bytes;
      CodecShare& share = codecs[record.codec];
      share.codec = record.codec;
      share.n_records += 1;
      share.n_elems += tensor.n_elems;
      share.stored_bytes += tensor.stored_bytes;
      if (tensor.error) add_asked(asked_text(*tensor.error));
      data_.records.push_back(std::move(record));
    }
    for (auto& [name, share] : codecs) data_.codecs.push_back(std::move(share));
    std::stable_sort(
        data_.codecs.begin(), data_.codecs.end(),
        [](const CodecShare& a, const CodecShare& b) { return a.stored_bytes > b.stored_bytes; });
  }

  void add_asked(std::string text) {
    const auto& all = data_.asked;
    if (std::find(all.begin(), all.end(), text) == all.end()) {
      data_.asked.push_back(std::move(text));
    }
  }

  // The largest tensors; those that share bytes with one have its pictures.
  void choose_pictures() {
    std::vector<std::size_t> order(data_.records.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return data_.records[a].tensor->stored_bytes > data_.records[b].tensor->stored_bytes;
    });
    has_picture_.resize(order.size());
    if (options_.index_only) return;
    for (const std::size_t i : order) {
      const StoredTensor& tensor = *data_.records[i].tensor;
      if (data_.n_pictures == options_.max_pictures) break;
      if (tensor.sharing != Sharing::kNone || tensor.n_elems < 2) continue;
      has_picture_[i] = true;
      data_.n_pictures += 1;
    }
  }

  void refuse(RecordReport& record, Error error) {
    record.problem = error.message;
    data_.problems.push_back(std::move(error));
  }

  // Returns the tensor of the reference, or nullptr where there is none to compare with.
  const StoredTensor* original_of(RecordReport& record) {
    if (reference_ == nullptr) return nullptr;
    auto original = find_original(*reference_, *record.tensor);
    if (original) return *original;
    if (options_.common && original.error().code == ErrorCode::kNotFound) return nullptr;
    refuse(record, std::move(original).error());
    return nullptr;
  }

  Result<void> read(RecordReport& record, bool has_picture) {
    const StoredTensor& tensor = *record.tensor;
    bar_.begin(tensor);
    const StoredTensor* const original = original_of(record);
    auto stats = tensor_stats(set_, tensor);
    CFCK_TRY(check_interrupt());
    if (!stats) {
      record.failure = std::move(stats).error();
      if (record.failure->record.empty()) record.failure->record = tensor.name;
      bar_.end();
      return {};
    }
    ValueReport& values = record.values.emplace();
    values.after = std::move(*stats);
    if (original != nullptr) {
      CFCK_TRY_ASSIGN(values.before, tensor_stats(*reference_, *original));
      CFCK_TRY(compare(record, *original));
    }
    if (has_picture) CFCK_TRY(draw(record, original));
    bar_.end();
    return {};
  }

  Result<void> compare(RecordReport& record, const StoredTensor& original) {
    const StoredTensor& tensor = *record.tensor;
    std::optional<BoundCheck> check;
    if (tensor.error) {
      const auto read = [&](std::uint64_t first, std::uint64_t count, MutableBytes out) {
        return reference_->read(original, first, count, out);
      };
      check.emplace(tensor.error->bound, tensor.dtype, tensor.n_elems, tensor.bound_rows, read);
    }
    CFCK_TRY_ASSIGN(record.errors, TensorErrors::measure(set_, tensor, *reference_, original,
                                                         check ? &*check : nullptr));
    if (!is_integer(tensor.dtype)) {
      if (!data_.total) data_.total.emplace();
      data_.total->add(*record.errors);
    }
    if (!check) return {};
    record.bound_kept = check->kept();
    if (!check->kept()) {
      refuse(record,
             invalid_argument(fmt::format("{} values are beyond {}, first at index {}; is this the "
                                          "reference that the file was made from?",
                                          check->n_beyond(), asked_text(*tensor.error),
                                          check->first_beyond()))
                 .in_record(tensor.name));
    }
    return {};
  }

  Result<void> draw(RecordReport& record, const StoredTensor* original) {
    const StoredTensor& tensor = *record.tensor;
    const ValueReport& values = *record.values;
    const TensorStats& stats = values.before ? *values.before : values.after;
    const bool varies = stats.n_finite > 0 && std::isnormal(stats.standard_deviation);
    if (!is_integer(tensor.dtype) && varies && !tensor.repeats()) {
      CFCK_TRY_ASSIGN(record.values->scan, scan_values(set_, tensor, reference_, original, stats));
    }
    const Record* const stored = spectral_record(tensor);
    if (stored == nullptr) return {};
    BandReport bands;
    bands.tensor = &tensor;
    bands.record = stored;
    const auto ignore = [](std::uint64_t) {};
    CFCK_TRY(describe_bands(set_, reference_, original, bands, ignore));
    record.codings = coding_figures(bands);
    return {};
  }

  void find_missing() {
    for (const StoredTensor& tensor : reference_->tensors()) {
      if (set_.find(tensor.name) != nullptr) continue;
      data_.problems.push_back(
          invalid_argument("only the reference has this tensor").in_record(tensor.name));
    }
  }

  void add_sums(RecordReport& record) {
    const StoredTensor& tensor = *record.tensor;
    ErrorSums sums{0, 0, 1};
    if (record.errors && record.values->before) {
      const bool is_same =
          record.errors->max_abs() == 0 && record.errors->n_special_mismatches() == 0;
      if ((is_same && !tensor.error) || is_integer(tensor.dtype)) return;
      const double rmse = record.errors->rmse();
      sums.squared_errors = rmse * rmse * static_cast<double>(record.values->before->n_finite);
      sums.squares = sum_of_squares(*record.values->before);
    } else if (tensor.error) {
      const auto n = static_cast<double>(tensor.n_elems);
      sums.squared_errors = tensor.error->rmse * tensor.error->rmse * n;
      if (tensor.error->quality) {
        sums.squares = tensor.error->quality->rms * tensor.error->quality->rms * n;
      } else if (record.values) {
        sums.squares = sum_of_squares(record.values->after);
      } else {
        return;  // the index does not know how large the values are
      }
    } else {
      return;
    }
    if (!std::isfinite(sums.squares) || !std::isfinite(sums.squared_errors)) return;
    record.sums = sums;
    data_.sums.add(sums);
  }

  static double sum_of_squares(const TensorStats& stats) {
    if (stats.n_finite == 0) return 0;
    return (stats.mean * stats.mean + stats.standard_deviation * stats.standard_deviation) *
           static_cast<double>(stats.n_finite);
  }

  const TensorSet& set_;
  const TensorSet* reference_;
  const ReportOptions& options_;
  ReadingBar& bar_;
  ReportData data_;
  std::vector<bool> has_picture_;
};

}  // namespace

Result<ReportData> gather(TensorSet& set, const TensorSet* reference, const ReportOptions& options,
                          bool shows_progress) {
  std::uint64_t total_bytes = 0;
  for (const StoredTensor& tensor : set.tensors()) total_bytes += tensor.n_bytes;
  ProgressBar bar(shows_progress && !options.index_only, total_bytes);
  bar.start("reading");
  ReadingBar reading_bar(bar, kPassesOfReport);
  set.listen([&](std::uint64_t n_bytes) { reading_bar.add_read(n_bytes); });
  auto data = Gatherer(set, reference, options, reading_bar).run();
  set.listen({});
  return data;
}

}  // namespace cfck::tools::report
