// The extension module cfck._native: a thin, unchecked layer over the library.
// Tensors come as addresses; the package keeps their owners alive.
#include <nanobind/nanobind.h>

#include "base/threads/exception_memory.hpp"
#include "cfck/options.hpp"
#include "cfck/version.hpp"
#include "huge_pages.hpp"

namespace cfck::python {

void bind_archive(nanobind::module_& module);
void bind_bases(nanobind::module_& module);
void bind_calibration(nanobind::module_& module);
void bind_device(nanobind::module_& module);
void bind_embeddings(nanobind::module_& module);
void bind_folders(nanobind::module_& module);
void bind_gradients(nanobind::module_& module);
void bind_message(nanobind::module_& module);
void bind_options(nanobind::module_& module);
void bind_record(nanobind::module_& module);
void bind_training(nanobind::module_& module);
void bind_writer(nanobind::module_& module);

void bind_module(nanobind::module_& module) {
  using namespace nanobind::literals;
  detail::take_exception_memory();
  // Objects that a daemon thread has at the end are no errors of this module.
  nanobind::set_leak_warnings(false);
  module.def("library_version", &library_version);
  module.def("default_thread_count", &default_thread_count, "Number of CPUs this process may use.");
  module.def("advise_huge_pages", &advise_huge_pages, "address"_a, "n_bytes"_a,
             "Asks for huge pages in memory that is about to be filled.");
  bind_bases(module);
  bind_calibration(module);
  bind_embeddings(module);
  bind_folders(module);
  bind_gradients(module);
  bind_message(module);
  bind_options(module);
  bind_record(module);
  bind_archive(module);
  bind_device(module);
  bind_training(module);
  bind_writer(module);
}

}  // namespace cfck::python

NB_MODULE(_native, module) { cfck::python::bind_module(module); }
