// Folders of models that are written.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <vector>

#include "arguments/paths.hpp"
#include "base/run_guarded.hpp"
#include "errors.hpp"
#include "model/folder/files/temporary_folder.hpp"
#include "model/folder/written_folder.hpp"

namespace cfck::python {
namespace {

using namespace nb::literals;

using Names = std::vector<nb::bytes>;

std::vector<std::string> texts_of(const Names& names) {
  std::vector<std::string> texts;
  for (const nb::bytes& name : names) texts.push_back(path_of(name));
  return texts;
}

std::unique_ptr<model::TemporaryFolder> create_folder(const nb::bytes& target) {
  const std::string path = path_of(target);
  return take(without_gil([&] {
    return run_guarded(
        [&] { return model::TemporaryFolder::create(model::temporary_place(path)); });
  }));
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

}  // namespace

void bind_folders(nb::module_& module) {
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

}  // namespace cfck::python
