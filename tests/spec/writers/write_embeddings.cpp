// Writes a packet of rows, for spec/vectors/make_embeddings.py:
//   write_embeddings BYTES_PER_SECOND DATA OUT
// DATA has the number of batches (32 bits), and for each its dtype (its number in a file), number
// of rows, values of a row, whether it has keys (32 bits each), maximum error (binary64), keys, and
// values.
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cfck/embeddings.hpp"
#include "tests/spec/writers/files.hpp"

namespace {

using namespace cfck;

class Fields {
 public:
  explicit Fields(std::vector<char> bytes) : bytes_(std::move(bytes)) {}

  template <class T>
  std::vector<T> take(std::size_t n) {
    std::vector<T> items(n);
    const std::size_t n_bytes = n * sizeof(T);
    if (n_bytes > bytes_.size() - at_) throw std::out_of_range("the data are cut");
    std::memcpy(items.data(), bytes_.data() + at_, n_bytes);
    at_ += n_bytes;
    return items;
  }

 private:
  std::vector<char> bytes_;
  std::size_t at_ = 0;
};

struct Batch {
  std::vector<std::byte> values;
  std::vector<std::int64_t> keys;
};

void write_vector(char** arguments) {
  Fields fields(test::read_file(arguments[2]));
  const std::uint32_t n_batches = fields.take<std::uint32_t>(1)[0];
  std::vector<Batch> memory(n_batches);
  std::vector<RowBatch> batches;
  for (Batch& batch : memory) {
    const auto words = fields.take<std::uint32_t>(4);
    const double max_abs_error = fields.take<double>(1)[0];
    const auto dtype = static_cast<DType>(words[0]);
    const std::size_t n_bytes = std::size_t{words[1]} * words[2] * (bits_per_element(dtype) / 8);
    if (words[3] != 0) batch.keys = fields.take<std::int64_t>(words[1]);
    batch.values = fields.take<std::byte>(n_bytes);
    batches.push_back({dtype, words[1], words[2], batch.values, max_abs_error, batch.keys});
  }
  RowPacketOptions options;
  options.bytes_per_second = std::stod(arguments[1]);
  std::vector<std::byte> out(max_row_packet_bytes(batches).value());
  RowWorkspace workspace;
  const std::uint64_t n_bytes = encode_rows(batches, options, out, workspace).value();
  test::write_file(arguments[3], ByteView(out).first(n_bytes));
}

}  // namespace

int main(int n_arguments, char** arguments) {
  return cfck::test::run_writer(n_arguments == 4, "write_embeddings BYTES_PER_SECOND DATA OUT",
                                arguments, write_vector);
}
