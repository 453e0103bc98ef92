#include "hdf5/chunks/pipeline.hpp"

#include <algorithm>
#include <array>

#include "hdf5/library/library.hpp"

namespace cfck::hdf5 {
namespace {

using Undo = Result<Buffer> (*)(const Filter& filter, Buffer in, std::uint64_t chunk_bytes);

Undo undo_of(H5Z_filter_t id) {
  switch (id) {
    case H5Z_FILTER_DEFLATE:
      return &undo_deflate;
    case H5Z_FILTER_SHUFFLE:
      return &undo_shuffle;
    case H5Z_FILTER_FLETCHER32:
      return &undo_fletcher32;
    case H5Z_FILTER_SZIP:
      return &undo_szip;
    case H5Z_FILTER_NBIT:
      return &undo_n_bit;
    case H5Z_FILTER_SCALEOFFSET:
      return &undo_scale_offset;
    case kFilterLzf:
      return &undo_lzf;
    default:
      return &undo_plugin;
  }
}

}  // namespace

Result<Pipeline> Pipeline::of(hid_t creation_properties) {
  Pipeline made;
  const int n_filters = H5Pget_nfilters(creation_properties);
  if (n_filters < 0) return library_error("the filters of a dataset cannot be read");
  for (unsigned i = 0; i < static_cast<unsigned>(n_filters); ++i) {
    Filter filter;
    std::size_t n_values = 0;
    unsigned config = 0;
    std::array<char, 256> name{};
    filter.id = H5Pget_filter2(creation_properties, i, &filter.flags, &n_values, nullptr,
                               name.size() - 1, name.data(), &config);
    if (filter.id < 0) return library_error("the filters of a dataset cannot be read");
    filter.values.resize(n_values);
    if (n_values > 0 && H5Pget_filter2(creation_properties, i, &filter.flags, &n_values,
                                       filter.values.data(), 0, nullptr, &config) < 0) {
      return library_error("the filters of a dataset cannot be read");
    }
    filter.name = name.data();
    made.filters_.push_back(std::move(filter));
  }
  return made;
}

Result<Buffer> Pipeline::decode(Buffer stored, unsigned mask, std::uint64_t chunk_bytes) const {
  Buffer bytes = std::move(stored);
  for (std::size_t i = filters_.size(); i-- > 0;) {
    if ((mask >> i & 1U) != 0) continue;
    CFCK_TRY_ASSIGN(bytes, undo_of(filters_[i].id)(filters_[i], std::move(bytes), chunk_bytes));
  }
  if (bytes.size() != chunk_bytes) {
    return corrupt("a chunk of the dataset has " + std::to_string(bytes.size()) + " bytes" +
                   (filters_.empty() ? "" : " after its filters") + ", and should have " +
                   std::to_string(chunk_bytes) +
                   "; the file is damaged, or made for that: download it again");
  }
  return bytes;
}

}  // namespace cfck::hdf5
