// Loads of many parts that several threads fill: what goes wrong in the middle of them, and memory
// that is short. Tests called Emulated need the fake device.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "tests/simt/fake_device.hpp"

namespace cfck::test {
namespace {

// A source that tells a test of each read, which may fail it.
class WatchedSource final : public ByteSource {
 public:
  using Watch = std::function<Result<void>(std::uint64_t offset_bytes, std::uint64_t n_bytes)>;

  explicit WatchedSource(const ByteSource& inner) : inner_(inner) {}
  void set_watch(Watch watch) { watch_ = std::move(watch); }

  std::uint64_t size() const override { return inner_.size(); }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    if (watch_) {
      CFCK_TRY(watch_(offset_bytes, out.size()));
    }
    return inner_.read_at(offset_bytes, out);
  }

 private:
  const ByteSource& inner_;
  Watch watch_;
};

constexpr std::size_t kTensors = 8;
// Small parts have blocks of half a megabyte, so that every thread has one.
constexpr std::size_t kPartBytes = std::size_t{4} << 20;
constexpr unsigned kThreads = 8;

// 15 MiB in 60 chunks without compression, and tensors of all that a device decodes or the host.
Bytes make_file() {
  std::vector<Bytes> values;
  for (std::size_t i = 0; i < kTensors; ++i) {
    values.push_back(noise(i, std::size_t{15} << 17));
  }
  const Bytes floats = weights(1, 40000);
  const Bytes whole = constant(3, 40000);
  EncodeOptions options;
  options.chunk_elems = 1 << 16;
  options.entropy = EntropyId::kRans;
  return write_file(
      [&](Writer& writer) {
        for (std::size_t i = 0; i < kTensors; ++i) {
          expect_ok(writer.add("raw" + std::to_string(i),
                               TensorView{DType::kF32, {15 << 15}, values[i]},
                               {.codec = CodecChoice::kRaw}));
          if (i % 3 == 1) {
            const std::string name = std::to_string(i);
            expect_ok(writer.add("f32 " + name, TensorView{DType::kF32, {40, 1000}, floats}));
            expect_ok(writer.add("i32 " + name, TensorView{DType::kI32, {10000}, whole}));
            expect_ok(writer.add("direct " + name, TensorView{DType::kF32, {40, 1000}, floats},
                                 {.max_abs_error = 1e-3}));
          }
        }
      },
      options);
}

class DevicePipeline : public testing::Test {
 protected:
  Reader open(const DecodeOptions& options = {.threads = kThreads}) {
    return take(Reader::open(source_, options));
  }
  const Bytes& bytes() const { return bytes_; }

  Bytes bytes_ = make_file();
  MemorySource memory_{bytes_};
  WatchedSource source_{memory_};
};

class EmulatedPipeline : public DevicePipeline {};

const cuda::LoadOptions kSmallParts{.part_bytes = kPartBytes};

// Which threads read, and how much at a time.
class Readers {
 public:
  Result<void> note(std::uint64_t n_bytes) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // so that others read meanwhile
    const std::lock_guard lock(mutex_);
    threads_.insert(std::this_thread::get_id());
    most_bytes_ = std::max(most_bytes_, n_bytes);
    ++n_reads_;
    return {};
  }
  std::size_t n_threads() const { return threads_.size(); }
  std::uint64_t most_bytes() const { return most_bytes_; }
  std::size_t n_reads() const { return n_reads_; }

 private:
  std::mutex mutex_;
  std::set<std::thread::id> threads_;
  std::uint64_t most_bytes_ = 0;
  std::size_t n_reads_ = 0;
};

TEST_F(DevicePipeline, ThreadsReadBlocksOfParts) {
  const Reader reader = open();
  expect_as_on_host(reader);
  expect_as_on_host(reader, kSmallParts);
  Readers readers;
  source_.set_watch([&](std::uint64_t, std::uint64_t n_bytes) { return readers.note(n_bytes); });
  expect_ok(load_all(reader, kSmallParts).result);
  EXPECT_GT(readers.n_threads(), 2u);
  EXPECT_LE(readers.n_threads(), kThreads);
  EXPECT_GT(readers.most_bytes(), std::uint64_t{1} << 18);  // more than a chunk
  EXPECT_LE(readers.most_bytes(), std::uint64_t{1} << 19);  // and no more than a block
  EXPECT_LT(readers.n_reads(), 60u);
}

TEST_F(EmulatedPipeline, WorkThatIsDoneAtOnceGivesTheSame) {
  const FakeSettings settings("eager");
  expect_as_on_host(open(), kSmallParts);
}

TEST_F(DevicePipeline, ASourceThatRefusesLongReads) {
  const Reader reader = open();
  source_.set_watch([&](std::uint64_t, std::uint64_t n_bytes) -> Result<void> {
    return n_bytes > 300000 ? Result<void>(io_error("too long a read")) : Result<void>();
  });
  expect_as_on_host(reader, kSmallParts);
}

// Of eight threads one fails, or several do.
TEST_F(EmulatedPipeline, AReadThatFailsIsReportedAsByTheHost) {
  const FakeSettings settings("copy_gbps=1000");  // what the device does takes no time
  Random random(1);
  for (int trial = 0; trial < 40; ++trial) {
    const Reader reader = open();
    const std::uint64_t bad = 1000 + random.below(bytes().size() / 2);
    const std::uint64_t n_bad = trial % 2 == 0 ? 1 : bytes().size() / 3;
    source_.set_watch([&](std::uint64_t offset_bytes, std::uint64_t n_bytes) -> Result<void> {
      const bool is_bad = offset_bytes < bad + n_bad && offset_bytes + n_bytes > bad;
      return is_bad ? Result<void>(io_error("a bad sector")) : Result<void>();
    });
    std::map<std::string, Bytes> values;
    const auto on_host = read_all(reader, values);
    const auto on_device = load_all(reader, kSmallParts).result;
    ASSERT_EQ(bool(on_host), bool(on_device)) << trial;
    if (!on_host) {
      EXPECT_EQ(on_device.error().to_string(), on_host.error().to_string()) << trial;
      EXPECT_FALSE(on_device.error().record.empty());
    }
    source_.set_watch({});
  }
}

TEST_F(DevicePipeline, ASourceThatIsCancelled) {
  const Reader reader = open();
  std::atomic<int> n_calls{0};
  source_.set_watch([&](std::uint64_t, std::uint64_t) -> Result<void> {
    return ++n_calls == 7 ? Result<void>(Error{ErrorCode::kCancelled, "stopped", {}, {}})
                          : Result<void>();
  });
  const auto loaded = load_all(reader, kSmallParts).result;
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kCancelled);
}

TEST_F(DevicePipeline, AFileThatIsTruncatedMeanwhile) {
  const TemporaryFolder folder;
  for (const std::uint64_t left : {bytes().size() / 2, bytes().size() - 100000}) {
    const std::string path = folder.path("m.cfck");
    put_bytes(path, bytes());
    const auto file = take(open_file(path));
    WatchedSource source(*file);
    const Reader reader = take(Reader::open(source, {.threads = kThreads}));
    source.set_watch([&](std::uint64_t, std::uint64_t) -> Result<void> {
      static std::mutex mutex;
      const std::lock_guard lock(mutex);
      if (std::filesystem::file_size(path) != left) {
        std::filesystem::resize_file(path, left);
      }
      return {};
    });
    const auto on_device = load_all(reader, kSmallParts).result;
    ASSERT_FALSE(on_device);
    EXPECT_EQ(on_device.error().code, ErrorCode::kTruncated);
    std::map<std::string, Bytes> values;
    EXPECT_EQ(on_device.error().to_string(), read_all(reader, values).error().to_string());
  }
}

TEST_F(DevicePipeline, AFileThatIsChangedMeanwhile) {
  for (const std::size_t at : {bytes().size() / 4, bytes().size() / 2, bytes().size() * 3 / 4}) {
    const Reader reader = open();
    std::once_flag once;
    source_.set_watch([&](std::uint64_t, std::uint64_t) -> Result<void> {
      std::call_once(once, [&] { bytes_[at] ^= std::byte{1}; });
      return {};
    });
    const auto on_device = load_all(reader, kSmallParts).result;
    source_.set_watch({});
    ASSERT_FALSE(on_device);
    EXPECT_EQ(on_device.error().code, ErrorCode::kChecksum);
    std::map<std::string, Bytes> values;
    EXPECT_EQ(on_device.error().to_string(), read_all(reader, values).error().to_string());
    bytes_[at] ^= std::byte{1};
  }
}

// Ctrl-C comes as a callback that cancels, or throws.
TEST_F(DevicePipeline, ACallbackEndsALoadInTheMiddle) {
  const Reader reader = open();
  for (const int last : {1, 2, 10, 40, 60}) {
    for (const bool throws : {false, true}) {
      int n_calls = 0;
      const auto stop = [&](std::uint64_t, std::string_view) {
        if (++n_calls < last) return true;
        if (throws) throw std::runtime_error("interrupted");
        return false;
      };
      const auto loaded = load_all(reader, {.part_bytes = kPartBytes, .progress = stop}).result;
      ASSERT_FALSE(loaded);
      EXPECT_EQ(loaded.error().code, throws ? ErrorCode::kInternal : ErrorCode::kCancelled);
      EXPECT_EQ(n_calls, last) << "it was told of more";
    }
  }
  expect_as_on_host(reader, kSmallParts);
}

TEST_F(EmulatedPipeline, ALoadThatEndsEarlyGivesEverythingBack) {
  const Reader reader = open();
  expect_ok(load_all(reader, kSmallParts).result);
  const FakeCounts before = fake_counts();
  for (const int last : {1, 10, 40}) {
    int n_calls = 0;
    const auto stop = [&](std::uint64_t, std::string_view) { return ++n_calls < last; };
    EXPECT_FALSE(load_all(reader, {.part_bytes = kPartBytes, .progress = stop}).result);
    EXPECT_LE(fake_counts().streams, before.streams);
    EXPECT_LE(fake_counts().events, before.events);
    EXPECT_EQ(fake_counts().allocations, before.allocations);
  }
}

TEST_F(DevicePipeline, ASecondLoadInTheMiddle) {
  const Reader reader = open();
  int n_calls = 0;
  const auto load_again = [&](std::uint64_t, std::string_view) {
    if (++n_calls == 5) {
      expect_as_on_host(reader, kSmallParts);
    }
    return true;
  };
  expect_as_on_host(reader, {.part_bytes = kPartBytes, .progress = load_again});
  EXPECT_GT(n_calls, 5);
}

TEST_F(DevicePipeline, LoadsSideBySide) {
  const Reader reader = open();
  std::vector<std::thread> threads;
  std::atomic<int> n_good{0};
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      const auto loaded = load_all(reader, kSmallParts);
      n_good += loaded.result && loaded.tensors.size() == reader.records().size() &&
                loaded.tensors.at("raw" + std::to_string(i)) ==
                    noise(static_cast<std::uint64_t>(i), std::size_t{15} << 17);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(n_good, 3);
}

// With less of it there are fewer parts.
TEST_F(DevicePipeline, LittleStagingMemory) {
  const Reader reader = open();
  const Record& record = *reader.find("raw0");
  const DeviceMemory out(record.decoded_bytes);
  const cuda::Read read{&record, out.bytes()};
  const auto plan = [&] {
    return take(cuda::Decoder::plan(reader, {&read, 1}, 0, {.part_bytes = 400000}));
  };
  const std::size_t least_bytes = plan().least_staging_bytes();
  const std::size_t most_bytes = plan().staging_bytes();
  ASSERT_EQ(most_bytes, 4 * least_bytes);
  for (const std::size_t n_bytes :
       {least_bytes, 2 * least_bytes - 16, 2 * least_bytes, 3 * least_bytes, most_bytes}) {
    auto decoder = plan();
    const DeviceMemory workspace(decoder.workspace_bytes());
    Bytes staging(n_bytes);
    out.put(Bytes(record.decoded_bytes, std::byte{0xcd}));
    expect_ok(decoder.enqueue(workspace.bytes().data(), staging, {}));
    EXPECT_TRUE(decoder.finish());
    EXPECT_EQ(out.values(), noise(0, std::size_t{15} << 17)) << n_bytes;
  }
  auto decoder = plan();
  const DeviceMemory workspace(decoder.workspace_bytes());
  Bytes staging(least_bytes - 1);
  const auto refused = decoder.enqueue(workspace.bytes().data(), staging, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("staging memory has " + std::to_string(least_bytes - 1)),
            std::string::npos);
}

// As in a container: the load has as many threads as there are CPUs.
TEST_F(DevicePipeline, TwoCpus) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  cpu_set_t two;
  CPU_ZERO(&two);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&two) < 2; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &two);
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof(two), &two), 0);
  const Reader reader = open({.threads = 0});
  Readers readers;
  source_.set_watch([&](std::uint64_t, std::uint64_t n_bytes) { return readers.note(n_bytes); });
  expect_ok(load_all(reader, kSmallParts).result);
  source_.set_watch({});
  expect_as_on_host(reader, kSmallParts);
  EXPECT_LE(readers.n_threads(), static_cast<std::size_t>(CPU_COUNT(&two)));
  ASSERT_EQ(::sched_setaffinity(0, sizeof(before), &before), 0);
}

// So many that those of a file on the device are planned in parts.
TEST(DevicePlans, ManyChunks) {
  const Bytes tensor = weights(4, 2600 * 128);
  EncodeOptions options;
  options.chunk_elems = 128;
  options.entropy = EntropyId::kRans;
  const Bytes good = write_file(
      [&](Writer& writer) {
        expect_ok(writer.add("many", TensorView{DType::kF32, {2600, 128}, tensor}));
      },
      options);
  Random random(2);
  for (const FileIn place : {FileIn::kHostMemory, FileIn::kDeviceMemory}) {
    const DeviceLoadResult loaded = load_all(take(PlacedFile(good, place).open()));
    expect_ok(loaded.result);
    EXPECT_EQ(loaded.tensors.at("many"), tensor);
    EXPECT_EQ(loaded.summary.device_bytes, tensor.size());
    for (int trial = 0; trial < 2; ++trial) {
      Bytes damaged = good;
      for (int i = 0; i < 3; ++i) {
        damaged[1000 + random.below(good.size() / 2)] ^= std::byte{4};
      }
      const PlacedFile file(damaged, place);
      const Reader reader = take(file.open());
      std::map<std::string, Bytes> values;
      const auto on_host = read_all(reader, values);
      const auto on_device = load_all(reader).result;
      ASSERT_FALSE(on_host);
      ASSERT_FALSE(on_device);
      EXPECT_EQ(on_device.error().to_string(), on_host.error().to_string());
    }
  }
}

// Each of these chunks has 16 segments, of which a device is told as of chunks. Kernels do nothing.
TEST(EmulatedPlans, ManySegments) {
  constexpr std::uint64_t kChunks = 32;
  constexpr std::uint32_t kChunkValues = 1 << 20;
  const Bytes floats = weights(5, kChunkValues);
  Bytes tensor(kChunks * kChunkValues * 2);
  for (std::uint64_t i = 0; i < kChunks * kChunkValues; ++i) {
    std::memcpy(&tensor[2 * i], &floats[(i * 4 + i / kChunkValues * 36) % floats.size() + 2], 2);
  }
  EncodeOptions options;
  options.chunk_elems = kChunkValues;
  options.entropy = EntropyId::kRans;
  const Bytes bytes = write_file(
      [&](Writer& writer) {
        expect_ok(writer.add("t", TensorView{DType::kBF16, {kChunks * kChunkValues}, tensor}));
      },
      options);
  const FakeSettings settings("idle");
  for (const FileIn place : {FileIn::kHostMemory, FileIn::kDeviceMemory}) {
    const DeviceLoadResult loaded = load_all(take(PlacedFile(bytes, place).open()));
    expect_ok(loaded.result);
    EXPECT_EQ(loaded.summary.device_bytes, tensor.size());
  }
}

// The fake device has room for four teams of warps: for so many segments, in however few chunks.
TEST(EmulatedPlans, FewSegmentsGoToTeams) {
  constexpr std::uint32_t kChunkValues = 1 << 17;  // two segments
  for (const std::uint64_t n_chunks : {2, 3}) {
    const Bytes tensor = weights(6, n_chunks * kChunkValues);
    EncodeOptions options;
    options.chunk_elems = kChunkValues;
    options.entropy = EntropyId::kRans;
    const Bytes bytes = write_file(
        [&](Writer& writer) {
          expect_ok(writer.add("t", TensorView{DType::kF32, {n_chunks * kChunkValues}, tensor}));
        },
        options);
    const FakeSettings settings("idle chunks=" + std::to_string(n_chunks));  // counts begin anew
    expect_ok(load_all(take(PlacedFile(bytes, FileIn::kDeviceMemory).open())).result);
    EXPECT_EQ(fake_calls("cfck_lossless_team_f32"), n_chunks == 2 ? 1 : 0);
    EXPECT_EQ(fake_calls("cfck_lossless_f32"), n_chunks == 2 ? 0 : 1);
  }
}

}  // namespace
}  // namespace cfck::test
