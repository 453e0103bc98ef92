// The module that programs load for HDF5 files.
#include "hdf5/archive/include/cfck/hdf5.hpp"
#include "model/formats/adapters.hpp"

namespace {

constexpr cfck::model::ArchiveAdapter kAdapter = {&cfck::hdf5::open, &cfck::hdf5::create};

}  // namespace

extern "C" __attribute__((visibility("default"))) const cfck::model::ArchiveAdapter*
cfck_archive_adapter(const char* build, const char** own) {
  *own = cfck::model::adapter_build().c_str();
  return cfck::model::adapter_build() == build ? &kAdapter : nullptr;
}
