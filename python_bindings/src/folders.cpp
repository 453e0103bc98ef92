// Folders of models: which file to load, the index of shards, and whether somebody replaces them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/run_guarded.hpp"
#include "errors.hpp"
#include "model/folder/find_model.hpp"
#include "model/folder/model_folder.hpp"
#include "model/folder/replace_folder.hpp"
#include "model/folder/shard_index.hpp"

namespace cfck::python {
namespace {

using namespace nb::literals;

// Paths are bytes: not every file name is valid UTF-8.
std::string path_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

nb::bytes find_model(const nb::bytes& folder) {
  const std::string path = path_of(folder);
  const std::string found =
      take(without_gil([&] { return run_guarded([&] { return model::find_model(path); }); }));
  return nb::bytes(found.data(), found.size());
}

model::WeightMap read_weight_map(const nb::bytes& index, std::optional<std::uint64_t> max_bytes) {
  const std::string path = path_of(index);
  return take(without_gil(
      [&] { return run_guarded([&] { return model::read_weight_map(path, max_bytes); }); }));
}

void check_unmarked(const nb::bytes& folder) {
  const std::string path = path_of(folder);
  take(without_gil([&] { return run_guarded([&] { return model::check_unmarked(path); }); }));
}

}  // namespace

void bind_folders(nb::module_& module) {
  module.def("find_model", &find_model, "folder"_a,
             "The path of the file or the index of shards that stands for the model of a folder.");
  module.def("read_weight_map", &read_weight_map, "path"_a, "max_bytes"_a.none(),
             "The tensors of an index of shards, in its order, each with its file; names are "
             "checked to stay in the folder.");
  module.def("check_unmarked", &check_unmarked, "folder"_a,
             "CorruptError while cfck convert replaces the files of the folder.");
  nb::class_<model::FolderWatch>(module, "FolderWatch",
                                 "Notices that a folder, or an index in it, is replaced.")
      .def(
          "__init__",
          [](model::FolderWatch* watch, const nb::bytes& folder, const nb::bytes& index) {
            new (watch) model::FolderWatch(path_of(folder), path_of(index));
          },
          "folder"_a, "index"_a)
      .def("changed", &model::FolderWatch::changed, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace cfck::python
