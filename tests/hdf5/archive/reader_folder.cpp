// Tells the tests where the program is that reads HDF5 files, wherever they are started.
#include <cstdlib>

namespace {

[[maybe_unused]] const int kSet = ::setenv("CFCK_ADAPTER_PATH", CFCK_READER_FOLDER, 0);

}  // namespace
