// Where the tests find the program that reads HDF5 files, whatever they are started from.
#include <cstdlib>

namespace {

[[maybe_unused]] const int kSet = ::setenv("CFCK_ADAPTER_PATH", CFCK_READER_FOLDER, 0);

}  // namespace
