#include "hdf5/archive/listing_text.hpp"

#include <utility>

namespace cfck::hdf5 {
namespace {

template <class T>
Json of_optional(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
template <class T>
std::optional<T> optional_of(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<T>());
}

}  // namespace

// In CBOR: names may have bytes that are not UTF-8, and binary is faster.
std::string text_of(const Listing& listing) {
  Json json;
  Json& datasets = json["datasets"] = Json::array();
  for (const ListedDataset& dataset : listing.datasets) {
    datasets.push_back({dataset.name, static_cast<int>(dataset.dtype), dataset.shape,
                        dataset.stored_bytes, of_optional(dataset.offset_bytes),
                        dataset.chunk_shape, of_optional(dataset.tied_to),
                        of_optional(dataset.fill)});
  }
  json["structure"] = listing.structure;
  json["metadata"] = listing.metadata;
  json["left_out"] = listing.left_out;
  json["lost"] = listing.lost;
  std::string text;
  Json::to_cbor(json, text);
  return text;
}

Listing listing_of(std::string_view text) {
  Json json = Json::from_cbor(text);
  Listing listing;
  for (const Json& entry : json["datasets"]) {
    listing.datasets.push_back({entry[0], static_cast<DType>(entry[1].get<int>()), entry[2],
                                entry[3], optional_of<std::uint64_t>(entry[4]), entry[5],
                                optional_of<std::size_t>(entry[6]),
                                optional_of<std::vector<std::uint8_t>>(entry[7])});
  }
  listing.structure = std::move(json["structure"]);
  listing.metadata = json["metadata"].get<Metadata>();
  listing.left_out = json["left_out"].get<std::vector<LeftOutAttribute>>();
  listing.lost = json["lost"];
  return listing;
}

}  // namespace cfck::hdf5
