// Folders of models: which file to load, the index of shards, and whether somebody replaces them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/run_guarded.hpp"
#include "errors.hpp"
#include "model/folder/files/replace_folder.hpp"
#include "model/folder/files/temporary_folder.hpp"
#include "model/folder/find_model.hpp"
#include "model/folder/model_folder.hpp"
#include "model/folder/shard_index.hpp"
#include "model/folder/written_folder.hpp"

namespace cfck::python {
namespace {

using namespace nb::literals;

// Paths are bytes: not every file name is valid UTF-8.
std::string path_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

nb::bytes find_model(const nb::bytes& folder) {
  const std::string path = path_of(folder);
  const std::string found = take(without_gil([&] {
    return run_guarded([&]() -> Result<std::string> {
      CFCK_TRY(model::check_unmarked(path));
      return model::find_model(path);
    });
  }));
  return nb::bytes(found.data(), found.size());
}

model::WeightMap read_weight_map(const nb::bytes& index, std::optional<std::uint64_t> max_bytes) {
  const std::string path = path_of(index);
  return take(without_gil([&] {
    return run_guarded([&]() -> Result<model::WeightMap> {
      const std::string folder = std::filesystem::path(path).parent_path().string();
      CFCK_TRY(model::check_unmarked(folder.empty() ? "." : folder));
      return model::read_weight_map(path, max_bytes);
    });
  }));
}

using Names = std::vector<nb::bytes>;

std::vector<std::string> texts_of(const Names& names) {
  std::vector<std::string> texts;
  for (const nb::bytes& name : names) texts.push_back(path_of(name));
  return texts;
}

std::unique_ptr<model::TemporaryFolder> create_folder(const nb::bytes& target) {
  const std::string path = path_of(target);
  return take(without_gil(
      [&] { return run_guarded([&] { return model::TemporaryFolder::create(path); }); }));
}

void put_in_place(model::TemporaryFolder& folder, const nb::bytes& target, const nb::bytes& like,
                  const Names& names, const Names& dropped, bool replaces) {
  const std::string path = path_of(target);
  const std::string model = path_of(like);
  model::WrittenFolder written;
  written.other_files = texts_of(names);
  written.dropped = texts_of(dropped);
  written.replaces = replaces;
  take(without_gil([&] {
    return run_guarded([&] {
      folder.open_up(model);
      return model::put_in_place(folder.path(), path, written, system_files());
    });
  }));
}

void bind_temporary_folder(nb::module_& module) {
  nb::class_<model::TemporaryFolder>(module, "TemporaryFolder",
                                     "A folder that is filled before it gets its name.")
      .def_static("create", &create_folder, "target"_a,
                  "A new folder beside an absolute path, open to this user alone.")
      .def_prop_ro("path",
                   [](const model::TemporaryFolder& folder) {
                     return nb::bytes(folder.path().data(), folder.path().size());
                   })
      .def("put_in_place", &put_in_place, "target"_a, "like"_a, "names"_a, "dropped"_a,
           "replaces"_a,
           "Gives the folder, with files of these names, the place of the target and the\n"
           "permissions of the folder `like`. An existing target is replaced: its files of other\n"
           "names stay, but for those that are dropped.")
      .def("remove", &model::TemporaryFolder::remove, nb::call_guard<GilRelease>(),
           "Removes the folder of this name, with all its contents.");
}

}  // namespace

void bind_folders(nb::module_& module) {
  bind_temporary_folder(module);
  module.def("find_model", &find_model, "folder"_a,
             "The path of the file or the index of shards that stands for the model of a folder.\n"
             "CorruptError while cfck replaces its files.");
  module.def("read_weight_map", &read_weight_map, "path"_a, "max_bytes"_a.none(),
             "The tensors of an index of shards, in its order, each with its file; names are "
             "checked to stay in the folder. CorruptError while cfck replaces its files.");
  nb::class_<model::FolderWatch>(module, "FolderWatch",
                                 "Notices that a folder, or an index in it, is replaced.")
      .def(
          "__init__",
          [](model::FolderWatch* watch, const nb::bytes& folder, const nb::bytes& index) {
            new (watch) model::FolderWatch(path_of(folder), path_of(index));
          },
          "folder"_a, "index"_a)
      .def("changed", &model::FolderWatch::changed, nb::call_guard<GilRelease>())
      .def(
          "check",
          [](const model::FolderWatch& watch) {
            take(without_gil([&] { return run_guarded([&] { return watch.check(); }); }));
          },
          "CorruptError while cfck replaces the files of the folder, IoError once that is done.");
}

}  // namespace cfck::python
