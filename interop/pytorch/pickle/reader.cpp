#include "interop/pytorch/pickle/reader.hpp"

#include "interop/pytorch/pickle/machine.hpp"

namespace cfck::interop {

Result<Pickle> read_pickle_at_start(ByteView bytes) {
  Pickle pickle;
  PickleMachine machine(bytes, pickle);
  CFCK_TRY(machine.run());
  return pickle;
}

Result<Pickle> read_pickle(ByteView bytes) {
  if (bytes.size() > kMaxPickleBytes) {
    return limit_exceeded("the pickle has " + std::to_string(bytes.size()) +
                          " bytes, and cfck reads up to 64 MiB; store long lists as tensors");
  }
  CFCK_TRY_ASSIGN(Pickle pickle, read_pickle_at_start(bytes));
  if (pickle.n_bytes == bytes.size()) return pickle;
  return corrupt("there are bytes behind the end of the pickle").at_byte(pickle.n_bytes);
}

}  // namespace cfck::interop
