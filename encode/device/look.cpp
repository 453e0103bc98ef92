#include "encode/device/look.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/bytes.hpp"
#include "encode/trial/candidates.hpp"

namespace cfck::encode {
namespace {

static_assert(sizeof(device::RangeHash) == sizeof(Digest));

// Lists that the device gets at most: of what is hashed and copied, and of parts by format and
// statistic.
constexpr std::size_t kLists = 10;

device::PartFormat part_format(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return device::PartFormat::kF64;
    case DType::kBF16:
      return device::PartFormat::kBf16;
    case DType::kF16:
      return device::PartFormat::kF16;
    default:
      return device::PartFormat::kF32;
  }
}

}  // namespace

Result<void> DeviceLook::hash(device::Range range, Digest* to) {
  const std::size_t n_bytes = range.n_pieces * sizeof(Digest);
  CFCK_TRY(make_room(n_bytes));
  range.first_piece = n_pieces_;
  n_pieces_ += range.n_pieces;
  ranges_.push_back(range);
  results_.push_back({to, n_bytes, true});
  return {};
}

Result<void> DeviceLook::measure(const device::Part& part, device::PartFormat format,
                                 device::PartStatistic statistic, device::PartFacts* to) {
  CFCK_TRY(make_room(sizeof(device::PartFacts)));
  Parts& group = parts_[{format, statistic}];
  group.parts.push_back(part);
  group.to.push_back(to);
  ++n_parts_;
  return {};
}

Result<void> DeviceLook::copy(const std::byte* from, std::size_t n_bytes, void* to) {
  CFCK_TRY(make_room(n_bytes));
  copies_.push_back({.from = bytes_of(from), .n_bytes = n_bytes});
  copied_bytes_ += device::aligned_bytes(n_bytes);
  results_.push_back({to, n_bytes, false});
  return {};
}

Result<void> DeviceLook::run() {
  if (results_.empty() && n_parts_ == 0) {
    return {};
  }
  CFCK_TRY(start());
  CFCK_TRY(queue_.download(staging_.first(copies_at() + copied_bytes_), found_));
  CFCK_TRY_ASSIGN(const std::uint64_t mark, queue_.mark());
  CFCK_TRY(queue_.wait(mark));
  hand_out();
  ranges_.clear();
  copies_.clear();
  results_.clear();
  parts_.clear();
  n_pieces_ = 0;
  n_parts_ = 0;
  copied_bytes_ = 0;
  return {};
}

void DeviceLook::hand_out() {
  const std::byte* hashed = staging_.data();
  const std::byte* copied = staging_.data() + copies_at();
  for (const Wanted& result : results_) {
    const std::byte*& from = result.is_hash ? hashed : copied;
    std::memcpy(result.to, from, result.n_bytes);
    from += result.is_hash ? result.n_bytes : device::aligned_bytes(result.n_bytes);
  }
  const std::byte* measured = staging_.data() + hash_bytes();
  for (const auto& [kind, group] : parts_) {
    for (device::PartFacts* const to : group.to) {
      std::memcpy(to, measured, sizeof(*to));
      measured += sizeof(*to);
    }
  }
}

Result<void> DeviceLook::make_room(std::size_t n_bytes) {
  const std::size_t n_described = (ranges_.size() + 1) * sizeof(device::Range) +
                                  (copies_.size() + 1) * sizeof(device::Copy) +
                                  (n_parts_ + 1) * sizeof(device::Part);
  const bool fits =
      copies_at() + copied_bytes_ + 2 * device::aligned_bytes(n_bytes) <= kResultBytes &&
      n_described + 3 * kLists * device::kAlignment <= kControlBytes;
  return fits ? Result<void>() : run();
}

Result<void> DeviceLook::start() {
  queue_.use_lane(0);
  control_.clear();
  const auto next = control_.take(sizeof(std::uint32_t));
  const auto ranges = control_.take(ranges_.size() * sizeof(device::Range));
  const auto copies = control_.take(copies_.size() * sizeof(device::Copy));
  if (!next || !ranges || !copies) {
    return internal_error("a device has no room for what it is to look at");
  }
  std::ranges::fill(next->host, std::byte{0});
  std::ranges::copy(std::as_bytes(std::span(ranges_)), ranges->host.begin());
  device::Copies all_copies = place_copies();
  std::ranges::copy(std::as_bytes(std::span(copies_)), copies->host.begin());
  CFCK_TRY_ASSIGN(const std::vector<device::Launch> measuring, place_parts());
  CFCK_TRY(queue_.upload(control_.device(), control_.filled()));
  for (const device::Launch& launch : measuring) {
    CFCK_TRY(queue_.launch(launch));
  }
  if (n_pieces_ != 0) {
    const device::Ranges all{device::on_device<device::Range>(*ranges),
                             reinterpret_cast<device::RangeHash*>(found_),
                             device::on_device<std::uint32_t>(*next),
                             static_cast<std::uint32_t>(ranges_.size()), n_pieces_};
    CFCK_TRY(queue_.launch(device::launch_of(device::Kernel::kHashRanges, n_pieces_, all)));
  }
  if (all_copies.n_copies != 0) {
    all_copies.copies = device::on_device<device::Copy>(*copies);
    CFCK_TRY(queue_.launch(
        device::launch_of(device::Kernel::kCopyBytes, all_copies.n_pieces, all_copies)));
  }
  return {};
}

Result<std::vector<device::Launch>> DeviceLook::place_parts() {
  std::vector<device::Launch> launches;
  std::byte* to = found_ + hash_bytes();
  for (const auto& [kind, group] : parts_) {
    const auto parts = control_.take(group.parts.size() * sizeof(device::Part));
    const auto next = control_.take(sizeof(std::uint32_t));
    if (!parts || !next) {
      return internal_error("a device has no room for the parts that it is to measure");
    }
    std::ranges::fill(next->host, std::byte{0});
    std::ranges::copy(std::as_bytes(std::span(group.parts)), parts->host.begin());
    const auto n_parts = static_cast<std::uint32_t>(group.parts.size());
    const device::Parts all{device::on_device<const device::Part>(*parts),
                            reinterpret_cast<device::PartFacts*>(to),
                            device::on_device<std::uint32_t>(*next),
                            n_parts,
                            kind.first,
                            kind.second};
    launches.push_back(device::launch_of(device::Kernel::kMeasureParts, n_parts, all));
    to += n_parts * sizeof(device::PartFacts);
  }
  return launches;
}

// Copies go behind hashes and facts.
device::Copies DeviceLook::place_copies() {
  device::Copies all;
  std::byte* to = found_ + copies_at();
  for (device::Copy& copy : copies_) {
    copy.to = reinterpret_cast<std::uint8_t*>(to);
    copy.first_piece = all.n_pieces;
    to += device::aligned_bytes(copy.n_bytes);
    all.n_pieces +=
        static_cast<std::uint32_t>(ceil_div(copy.n_bytes, std::uint64_t{device::kCopyPieceBytes}));
  }
  all.n_copies = static_cast<std::uint32_t>(copies_.size());
  return all;
}

Result<void> look_at_values(const EncodePlan& plan, const std::byte* values, DeviceLook& look,
                            DeviceTensor& known) {
  const codec::LossyRecord record = lossy_record(plan, {}, plan.entropy, plan.level);
  const codec::WantedValues wanted =
      codec::find_lossy_encoder(plan.choice.lossy_codec)->wanted_values(record);
  const std::uint64_t value_bytes = bits_per_element(plan.dtype) / 8;
  // Results go to memory that stays where it is when a list gets longer.
  for (const codec::ValueRange& range : wanted.ranges) {
    const std::uint64_t at = range.first_elem * value_bytes;
    const std::uint64_t n_bytes = range.n_elems * value_bytes;
    if (known.find_bytes(at, n_bytes).empty()) {
      KnownBytes& some = known.known.emplace_back(at, std::vector<std::byte>(n_bytes));
      CFCK_TRY(look.copy(values + at, n_bytes, some.bytes.data()));
    }
  }
  if (wanted.statistic == codec::PartStatistic::kNone ||
      known.find_facts(wanted.statistic, record.bound.per_row, record.chunk_elems) != nullptr) {
    return {};
  }
  KnownFacts& facts =
      known.facts.emplace_back(wanted.statistic, record.bound.per_row, record.chunk_elems,
                               std::vector<codec::PartFacts>(wanted.parts.size()));
  for (std::size_t i = 0; i < wanted.parts.size(); ++i) {
    const codec::ValuePart& part = wanted.parts[i];
    CFCK_TRY(look.measure({bytes_of(values + part.first_elem * value_bytes),
                           bytes_of(values + part.first_of_row * value_bytes), part.n_elems},
                          part_format(plan.dtype), wanted.statistic, &facts.parts[i]));
  }
  return {};
}

}  // namespace cfck::encode
