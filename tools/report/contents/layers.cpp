#include "tools/report/contents/layers.hpp"

#include <algorithm>
#include <map>

namespace cfck::tools::report {
namespace {

constexpr std::string_view kSeparators = "./";

bool is_number(std::string_view part) {
  return !part.empty() &&
         std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string_view layer_of(std::string_view name) {
  std::size_t begin = 0;
  while (begin < name.size()) {
    const std::size_t end = std::min(name.find_first_of(kSeparators, begin), name.size());
    // A name that begins with a number says nothing else of its layer.
    if (is_number(name.substr(begin, end - begin)) && end < name.size()) {
      return name.substr(0, end);
    }
    begin = end + 1;
  }
  const std::size_t last = name.find_last_of(kSeparators);
  return last == std::string_view::npos || last == 0 ? name : name.substr(0, last);
}

std::vector<Layer> group_layers(const std::vector<RecordReport>& records) {
  std::vector<Layer> layers;
  std::map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const StoredTensor& tensor = *records[i].tensor;
    const std::string_view name = layer_of(tensor.name);
    const auto [place, is_new] = places.try_emplace(name, layers.size());
    if (is_new) layers.emplace_back().name = name;
    Layer& layer = layers[place->second];
    layer.records.push_back(i);
    layer.n_elems += tensor.n_elems;
    layer.decoded_bytes += tensor.n_bytes;
    layer.stored_bytes += tensor.stored_bytes;
    if (records[i].sums) layer.sums.add(*records[i].sums);
  }
  for (Layer& layer : layers) {
    std::stable_sort(layer.records.begin(), layer.records.end(), [&](std::size_t a, std::size_t b) {
      return records[a].tensor->stored_bytes > records[b].tensor->stored_bytes;
    });
  }
  std::stable_sort(layers.begin(), layers.end(),
                   [](const Layer& a, const Layer& b) { return a.stored_bytes > b.stored_bytes; });
  return layers;
}

}  // namespace cfck::tools::report
