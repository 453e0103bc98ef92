// Section 5.3 of the specification: every byte belongs to exactly one thing.
#include <algorithm>

#include "format/container/frame_fields.hpp"

namespace cfck::format {
namespace {

constexpr std::uint32_t kNoRecord = ~std::uint32_t{0};

struct Owned {
  Extent extent;
  const char* what;
  std::uint32_t record = kNoRecord;
};

std::vector<Owned> collect(const Tail& tail, const Index& index, const MetadataFrame& metadata) {
  std::vector<Owned> all;
  all.reserve(index.records.size() + index.packs.size() + metadata.attachments.size() + 4);
  all.push_back({{0, kHeadBytes}, "the head"});
  for (std::size_t i = 0; i < index.records.size(); ++i) {
    const StoredRecord& stored = index.records[i];
    if (stored.record.kind == RecordKind::kChunked && stored.record.stored_bytes != 0) {
      all.push_back({{stored.offset_bytes, stored.record.stored_bytes},
                     "a record",
                     static_cast<std::uint32_t>(i)});
    }
  }
  for (const PackEntry& pack : index.packs) {
    all.push_back({{pack.offset_bytes, pack.n_bytes}, "a pack"});
  }
  for (const StoredAttachment& attachment : metadata.attachments) {
    all.push_back({attachment.extent, "an attachment"});
  }
  all.push_back({tail.metadata, "the metadata"});
  all.push_back({tail.index, "the index"});
  all.push_back({{tail.file_bytes - kTailBytes, kTailBytes}, "the tail"});
  return all;
}

std::string record_name(const Index& index, const Owned& owned) {
  return owned.record == kNoRecord ? std::string() : index.records[owned.record].record.name;
}

struct PackedPlace {
  std::uint32_t pack;
  std::uint32_t record;
  std::uint64_t start;
  std::uint64_t n_bytes;
};

// The payloads of each pack are disjoint; in generation 0 they fill it in index order.
Result<void> check_packs(bool without_gaps, const Index& index) {
  std::vector<PackedPlace> places;
  for (std::size_t i = 0; i < index.records.size(); ++i) {
    const StoredRecord& stored = index.records[i];
    if (stored.record.kind == RecordKind::kPacked) {
      places.push_back(
          {stored.pack, static_cast<std::uint32_t>(i), stored.pack_offset, stored.payload_bytes});
    }
  }
  // Without gaps the order of the index is the order of the bytes.
  std::stable_sort(places.begin(), places.end(), [&](const PackedPlace& a, const PackedPlace& b) {
    return a.pack != b.pack ? a.pack < b.pack : !without_gaps && a.start < b.start;
  });
  std::vector<std::uint64_t> ends(index.packs.size(), kFrameHeaderBytes);
  for (const PackedPlace& place : places) {
    std::uint64_t& end = ends[place.pack];
    if (place.start < end || (without_gaps && place.start != end)) {
      return corrupt("the payloads of a pack overlap or leave gaps",
                     index.packs[place.pack].offset_bytes + place.start,
                     index.records[place.record].record.name);
    }
    end = place.start + place.n_bytes;
  }
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (without_gaps && ends[i] != index.packs[i].n_bytes) {
      return corrupt("a pack has bytes that belong to no record",
                     index.packs[i].offset_bytes + ends[i]);
    }
  }
  return {};
}

}  // namespace

Result<std::uint64_t> check_coverage(const Tail& tail, const Index& index,
                                     const MetadataFrame& metadata) {
  std::vector<Owned> all = collect(tail, index, metadata);
  std::sort(all.begin(), all.end(), [](const Owned& a, const Owned& b) {
    return a.extent.offset_bytes < b.extent.offset_bytes;
  });
  const bool without_gaps = tail.generation == 0;
  std::uint64_t end = 0;
  std::uint64_t dead_bytes = 0;
  const Owned* previous = nullptr;
  for (const Owned& owned : all) {
    const std::uint64_t start = owned.extent.offset_bytes;
    if (start > tail.file_bytes || owned.extent.n_bytes > tail.file_bytes - start) {
      return corrupt(std::string(owned.what) + " reaches beyond the end of the file", start,
                     record_name(index, owned));
    }
    if (start < end) {
      return corrupt(std::string(owned.what) + " overlaps " + previous->what, start,
                     record_name(index, owned));
    }
    if (start != end && without_gaps) {
      return corrupt(
          "bytes " + std::to_string(end) + " to " + std::to_string(start) + " belong to nothing",
          end);
    }
    dead_bytes += start - end;
    end = start + owned.extent.n_bytes;
    previous = &owned;
  }
  CFCK_TRY(check_packs(without_gaps, index));
  return dead_bytes;
}

}  // namespace cfck::format
