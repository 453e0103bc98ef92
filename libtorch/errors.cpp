#include "libtorch/errors.hpp"

#include <c10/util/Exception.h>

#include <new>

namespace cfck::libtorch {

Error caught_error() {
  try {
    throw;
  } catch (const c10::OutOfMemoryError& error) {
    return {ErrorCode::kOutOfMemory, error.what_without_backtrace(), {}, {}};
  } catch (const std::bad_alloc&) {
    return {ErrorCode::kOutOfMemory, "out of memory", {}, {}};
  } catch (const c10::Error& error) {
    return internal_error(std::string("libtorch: ") + error.what_without_backtrace());
  } catch (const std::exception& error) {
    return internal_error(error.what());
  } catch (...) {
    return internal_error("an unknown exception");
  }
}

}  // namespace cfck::libtorch
