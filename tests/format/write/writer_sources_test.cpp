// Sources that fail, change or throw; sinks that fail.
#include <atomic>
#include <new>

#include "base/hashing/hashing.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {
namespace {

// A source that is not in memory; it fails, throws, or returns other bytes from some read on.
class TroubledSource final : public ByteSource {
 public:
  enum class Trouble { kNone, kFails, kThrows, kChanges };
  TroubledSource(Bytes bytes, Trouble trouble, std::uint64_t from)
      : bytes_(std::move(bytes)), trouble_(trouble), from_(from) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    const std::uint64_t number = reads_.fetch_add(1);
    CFCK_TRY(MemorySource(bytes_).read_at(offset_bytes, out));
    if (number < from_) {
      return {};
    }
    switch (trouble_) {
      case Trouble::kFails:
        return Error{ErrorCode::kIo, "the disk is gone", {}, {}};
      case Trouble::kThrows:
        throw std::bad_alloc();
      case Trouble::kChanges:
        for (std::byte& byte : out) {
          byte ^= static_cast<std::byte>(number);
        }
        return {};
      case Trouble::kNone:
        return {};
    }
    return {};
  }
  std::uint64_t reads() const { return reads_; }

 private:
  const Bytes bytes_;
  const Trouble trouble_;
  const std::uint64_t from_;
  mutable std::atomic<std::uint64_t> reads_{0};
};

using Trouble = TroubledSource::Trouble;

class FailingSink final : public ByteSink {
 public:
  explicit FailingSink(std::uint64_t at) : at_(at) {}
  Result<void> write(ByteView) override {
    if (n_++ >= at_) {
      return Error{ErrorCode::kIo, "the device is full", {}, {}};
    }
    return {};
  }
  std::uint64_t writes() const { return n_; }

 private:
  const std::uint64_t at_;
  std::uint64_t n_ = 0;
};

std::vector<Bytes> contents() {
  return {weights(1, 3000), noise(2, 400000), weights(3, 700000), noise(4, 3 << 20),
          joined({noise(5, 6 << 20), constant(0, 1 << 20)})};
}

Result<void> write_all(ByteSink& sink, const std::vector<std::unique_ptr<TroubledSource>>& sources,
                       unsigned threads) {
  EncodeOptions options;
  options.threads = threads;
  CFCK_TRY_ASSIGN(Writer writer, Writer::create(sink, options));
  for (std::size_t i = 0; i < sources.size(); ++i) {
    CFCK_TRY(writer.add("t" + std::to_string(i),
                        TensorSource{DType::kF32, {sources[i]->size() / 4}, sources[i].get(), 0}));
  }
  CFCK_TRY(writer.finish());
  return {};
}

std::vector<std::unique_ptr<TroubledSource>> sources_with(Trouble trouble, std::uint64_t from,
                                                          std::size_t which) {
  std::vector<std::unique_ptr<TroubledSource>> sources;
  for (Bytes& bytes : contents()) {
    const bool troubled = sources.size() == which;
    sources.push_back(std::make_unique<TroubledSource>(std::move(bytes),
                                                       troubled ? trouble : Trouble::kNone, from));
  }
  return sources;
}

TEST(WriterSources, SourcesThatAreNotInMemoryGiveTheSameFile) {
  MemorySink sink;
  expect_ok(write_all(sink, sources_with(Trouble::kNone, 0, 0), 2));
  const Bytes mapped = write_file([](Writer& writer) {
    static const std::vector<Bytes> kept = contents();
    for (std::size_t i = 0; i < kept.size(); ++i) {
      expect_ok(writer.add("t" + std::to_string(i),
                           TensorView{DType::kF32, {kept[i].size() / 4}, kept[i]}));
    }
  });
  EXPECT_EQ(sink.bytes() == mapped, true);
}

TEST(WriterSources, EveryFailingReadIsReportedWithTheTensor) {
  for (std::size_t which = 0; which < contents().size(); ++which) {
    MemorySink unharmed;
    const auto counted = sources_with(Trouble::kNone, 0, which);
    expect_ok(write_all(unharmed, counted, 1));
    for (std::uint64_t at = 0; at < counted[which]->reads(); at += 1 + at / 4) {
      for (const Trouble trouble : {Trouble::kFails, Trouble::kThrows}) {
        MemorySink sink;
        const Result<void> written = write_all(sink, sources_with(trouble, at, which), 1);
        ASSERT_FALSE(written) << which << " read " << at;
        EXPECT_EQ(written.error().code,
                  trouble == Trouble::kFails ? ErrorCode::kIo : ErrorCode::kOutOfMemory);
        if (trouble == Trouble::kFails && at > 0) {
          EXPECT_EQ(written.error().record, "t" + std::to_string(which));
        }
      }
    }
  }
}

TEST(WriterSources, AFileThatChangesWhileItIsReadStillGivesASoundOne) {
  for (std::size_t which = 0; which < contents().size(); ++which) {
    for (const std::uint64_t from : {0U, 1U, 2U, 4U, 7U}) {
      for (const unsigned threads : {1U, 2U}) {
        MemorySink sink;
        expect_ok(write_all(sink, sources_with(Trouble::kChanges, from, which), threads));
        const OpenFile file(sink.take());
        expect_sound(file.reader());
      }
    }
  }
}

TEST(WriterSources, EveryFailingWriteIsReported) {
  FailingSink counting(~std::uint64_t{0});
  expect_ok(write_all(counting, sources_with(Trouble::kNone, 0, 0), 1));
  ASSERT_GT(counting.writes(), 10U);
  for (std::uint64_t at = 0; at < counting.writes(); ++at) {
    FailingSink sink(at);
    const Result<void> written = write_all(sink, sources_with(Trouble::kNone, 0, 0), 2);
    ASSERT_FALSE(written) << at;
    EXPECT_EQ(written.error().message, "the device is full");
    EXPECT_EQ(sink.writes(), at + 1) << "written to after an error";
  }
}

TEST(WriterSources, EqualTensorsAreStoredOnce) {
  const Bytes values = weights(1, 300000);
  Bytes other = values;
  other.back() ^= std::byte{1};
  const Bytes copy = values;
  const TroubledSource slow(values, Trouble::kNone, 0);
  const OpenFile file(write_file([&](Writer& writer) {
    const auto add = [&](const char* name, DType dtype, const Shape& shape, const Bytes& bytes) {
      expect_ok(writer.add(name, TensorView{dtype, shape, bytes}));
    };
    add("first", DType::kF32, {300000}, values);
    add("other", DType::kF32, {300000}, other);
    add("other shape", DType::kF32, {300, 1000}, values);
    add("other dtype", DType::kI32, {300000}, values);
    add("twin", DType::kF32, {300000}, copy);
    add("twin of other", DType::kF32, {300000}, other);
    expect_ok(writer.add("slow twin", TensorSource{DType::kF32, {300000}, &slow, 0}));
    expect_ok(writer.add("other codec", TensorSource{DType::kF32, {300000}, &slow, 0},
                         TensorOptions{.codec = CodecChoice::kRaw}));
  }));
  for (const char* name : {"first", "other", "other shape", "other dtype", "other codec"}) {
    EXPECT_EQ(file.record(name).kind, RecordKind::kChunked) << name;
  }
  for (const char* name : {"twin", "slow twin"}) {
    EXPECT_EQ(file.record(name).kind, RecordKind::kDuplicate) << name;
    EXPECT_EQ(file->records()[file.record(name).base].name, "first");
    EXPECT_EQ(file.tensor(name), values);
  }
  EXPECT_EQ(file->records()[file.record("twin of other").base].name, "other");
  EXPECT_EQ(file.tensor("twin of other"), other);
  expect_sound(file.reader());
}

}  // namespace
}  // namespace cfck::test
