// The extension module cfck._native: a thin, unchecked layer over the library.
// Tensors come as addresses; the package keeps their owners alive.
#include <nanobind/nanobind.h>

#include "cfck/options.hpp"
#include "cfck/version.hpp"

namespace cfck::python {

void bind_reader(nanobind::module_& module);
void bind_writer(nanobind::module_& module);

}  // namespace cfck::python

NB_MODULE(_native, module) {
  module.def("library_version", &cfck::library_version);
  module.def("default_thread_count", &cfck::default_thread_count,
             "Number of CPUs this process may use.");
  cfck::python::bind_reader(module);
  cfck::python::bind_writer(module);
}
