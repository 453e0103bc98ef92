#include "errors.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

namespace cfck::python {

void raise(const Error& error) {
  const nb::object exception = run_python([&]() -> nb::object {
    return nb::module_::import_("cfck.errors")
        .attr("from_native")(error_code_name(error.code), error.to_string(), error.record,
                             error.byte_offset);
  });
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
  throw nb::python_error();
}

}  // namespace cfck::python
