// The tensors of a .cfck file as a base.
#include <utility>
#include <vector>

#include "base/run_guarded.hpp"
#include "cfck/base.hpp"
#include "cfck/io.hpp"
#include "cfck/reader.hpp"
#include "codec/chunk_geometry.hpp"
#include "format/read/find_base.hpp"
#include "format/read/last_chunk.hpp"
#include "format/read/reader_access.hpp"

namespace cfck {
namespace {

class ReaderBase final : public Base {
 public:
  ReaderBase(Reader reader, std::string name) : reader_(std::move(reader)), name_(std::move(name)) {
    for (const Record& record : reader_.records()) {
      tensors_.push_back({record.dtype, record.shape, record.index});
    }
  }

  std::string_view name() const override { return name_; }
  const BaseTensor* find(std::string_view name) const override {
    const Record* const record = reader_.find(name);
    return record == nullptr ? nullptr : &tensors_[record->index];
  }
  std::optional<Digest> known_digest(const BaseTensor& tensor) const override {
    return record_of(tensor).digest;
  }
  Result<Digest> digest(const BaseTensor& tensor) const override {
    return record_of(tensor).digest;
  }
  Result<void> read(const BaseTensor& tensor, std::uint64_t offset_bytes,
                    MutableBytes out) const override {
    const unsigned bits = bits_per_element(tensor.dtype);
    const Record& record = owner_of_bytes(tensor);
    format::ChunkedBytes bytes{record.index, record.decoded_bytes, 0};
    if (record.kind != RecordKind::kAlias) {
      bytes = format::chunked_bytes(record.index, record.n_elems, record.chunk_elems, bits);
    }
    Result<void> read =
        last_chunk_.read(bytes, offset_bytes, out, [&](std::uint64_t first, MutableBytes to) {
          return reader_.read_elements(record, first * 8 / bits, to.size() * 8 / bits, to);
        });
    return read ? std::move(read) : format::of_base(std::move(read).error(), name_);
  }
  std::uint64_t chain_length() const override { return reader_.chain_length(); }

 private:
  const Record& record_of(const BaseTensor& tensor) const {
    return reader_.records()[tensor.index];
  }

  const Record& owner_of_bytes(const BaseTensor& tensor) const {
    const Record& record = record_of(tensor);
    return record.kind == RecordKind::kDuplicate ? reader_.records()[record.base] : record;
  }

  const Reader reader_;
  const std::string name_;
  std::vector<BaseTensor> tensors_;
  const format::LastChunk last_chunk_;
};

}  // namespace

Result<std::shared_ptr<const Base>> base_of_reader(Reader reader, std::string name) {
  return run_guarded([&]() -> Result<std::shared_ptr<const Base>> {
    CFCK_TRY(format::check_open(reader));
    return std::shared_ptr<const Base>(
        std::make_shared<ReaderBase>(std::move(reader), std::move(name)));
  });
}

Result<std::shared_ptr<const Base>> open_base(const std::string& path,
                                              const DecodeOptions& options) {
  return run_guarded([&]() -> Result<std::shared_ptr<const Base>> {
    DecodeOptions on_one_thread = options;
    on_one_thread.threads = 1;
    CFCK_TRY_ASSIGN(Reader reader, Reader::open(path, std::move(on_one_thread)));
    return base_of_reader(std::move(reader), format::file_name_of(path));
  });
}

}  // namespace cfck
