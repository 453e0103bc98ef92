#include "tools/inspect/changes.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "cfck/archive.hpp"
#include "cfck/base.hpp"
#include "format/read/chunks/open_file.hpp"
#include "format/read/reader_access.hpp"
#include "model/formats/archive_format.hpp"
#include "tools/inspect/tensor_set.hpp"
#include "tools/output/progress_bar.hpp"

namespace cfck::tools {
namespace {

// Counts the elements whose bits differ.
std::uint64_t n_different(ByteView a, ByteView b, unsigned bits) {
  std::uint64_t count = 0;
  if (bits % 8 == 0) {
    const std::size_t step = bits / 8;
    for (std::size_t at = 0; at < a.size(); at += step) {
      count += std::memcmp(a.data() + at, b.data() + at, step) != 0 ? 1U : 0U;
    }
    return count;
  }
  const auto differs = [&](std::uint64_t bit) {
    return ((a[bit / 8] ^ b[bit / 8]) >> (bit % 8) & std::byte{1}) != std::byte{0};
  };
  for (std::uint64_t first = 0; first + bits <= 8 * std::uint64_t{a.size()}; first += bits) {
    bool any = false;
    for (unsigned bit = 0; bit < bits; ++bit) any = any || differs(first + bit);
    count += any ? 1U : 0U;
  }
  return count;
}

class Count {
 public:
  Count(const Reader& reader, const Base& base, ProgressBar& bar)
      : reader_(reader), base_(base), bar_(bar) {}

  // Requires: the base has been checked.
  Result<std::uint64_t> of(const Record& record) {
    const BaseTensor& tensor = *base_.find(record.name);
    const unsigned bits = bits_per_element(record.dtype);
    // Whole bytes for every dtype.
    const std::uint64_t piece = std::max<std::uint64_t>(record.chunk_elems, kLeafElems);
    std::uint64_t count = 0;
    for (std::uint64_t first = 0; first < record.n_elems; first += piece) {
      CFCK_TRY(check_interrupt());
      const std::uint64_t n_elems = std::min(piece, record.n_elems - first);
      const std::uint64_t n_bytes = (n_elems * bits + 7) / 8;
      after_.resize(n_bytes);
      before_.resize(n_bytes);
      CFCK_TRY(reader_.read_elements(record, first, n_elems, after_));
      CFCK_TRY(base_.read(tensor, first * bits / 8, before_));
      count += n_different(after_, before_, bits);
      bar_.advance(n_bytes);
    }
    return count;
  }

 private:
  const Reader& reader_;
  const Base& base_;
  ProgressBar& bar_;
  std::vector<std::byte> after_;
  std::vector<std::byte> before_;
};

bool is_different(const Record& record) {
  return record.base_digest && *record.base_digest != record.digest;
}

}  // namespace

Result<void> count_changes(const ReadingOptions& reading, bool show_progress, Listing& listing) {
  if (!listing.needs_base) return {};
  ArchiveOptions options;
  CFCK_TRY_ASSIGN(options.decode, reading.decode());
  CFCK_TRY_ASSIGN(const auto archive, model::open_archive_file(listing.path, options));
  const Reader& reader = *archive->files().front().reader;
  CFCK_TRY(reader.check_base());
  const Base& base = *ReaderAccess::file(reader).base;
  std::uint64_t total_bytes = 0;
  for (const Record& record : reader.records()) {
    total_bytes += is_different(record) ? record.decoded_bytes : 0;
  }
  ProgressBar bar(show_progress, total_bytes);
  bar.start("comparing " + listing.path.substr(listing.path.rfind('/') + 1));
  Count count(reader, base, bar);
  for (TensorRow& row : listing.rows) {
    if (row.against_base == AgainstBase::kNo) continue;
    const Record* const record = reader.find(row.name);
    row.n_changed = 0;
    if (record == nullptr || !is_different(*record)) continue;
    CFCK_TRY_ASSIGN(row.n_changed, count.of(*record));
  }
  return {};
}

}  // namespace cfck::tools
