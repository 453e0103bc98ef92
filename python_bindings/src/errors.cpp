#include "errors.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <string>

#include "base/text.hpp"

namespace cfck::python {

void raise(const Error& error) {
  // A name that is refused for its bytes is none that Python can have.
  const std::string record = valid_utf8(error.record) ? error.record : escaped(error.record);
  const nb::object exception = run_python([&]() -> nb::object {
    return nb::module_::import_("cfck.errors")
        .attr("from_native")(error_code_name(error.code), error.to_string(), record,
                             error.byte_offset);
  });
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
  throw nb::python_error();
}

}  // namespace cfck::python
