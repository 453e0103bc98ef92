// Whole loads: every codec, dtype and kind of record, slices, and what ends badly. Tests called
// Emulated need the fake device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>

#include "tests/simt/fake_device.hpp"

namespace cfck::test {
namespace {

template <class T>
Bytes as_bytes(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Values around 0 whose spread differs from row to row.
std::vector<float> rows_of(std::uint64_t seed, std::size_t n_rows, std::size_t n_columns) {
  Random random(seed);
  std::vector<float> values;
  for (std::size_t r = 0; r < n_rows; ++r) {
    const float scale = std::ldexp(1.0F, -static_cast<int>(random.below(6)));
    for (std::size_t c = 0; c < n_columns; ++c) {
      float sum = 0;
      for (int i = 0; i < 4; ++i) {
        sum += static_cast<float>(random.below(1 << 20)) * 0x1p-20F - 0.5F;
      }
      values.push_back(sum * scale);
    }
  }
  return values;
}

Bytes bf16_of(const std::vector<float>& values) {
  Bytes bytes;
  for (const float value : values) {
    std::byte word[4];
    std::memcpy(word, &value, 4);
    bytes.insert(bytes.end(), word + 2, word + 4);
  }
  return bytes;
}

Bytes f64_of(const std::vector<float>& values) {
  return as_bytes(std::vector<double>(values.begin(), values.end()));
}

// Three of four values are zeros.
std::vector<float> sparse(std::vector<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = i % 4 == 1 ? values[i] : 0.0F;
  }
  return values;
}

// Tensors of all dtypes and codecs, in chunks of 2048 values, and views of them.
class ManyTensors {
 public:
  explicit ManyTensors(EntropyId entropy = EntropyId::kRans) {
    EncodeOptions options;
    options.chunk_elems = 2048;
    options.entropy = entropy;
    options.level = EncodeLevel::kFast;  // of two stages, the one that was asked for
    bytes_ = write_file([&](Writer& writer) { fill(writer); }, options);
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  void add(Writer& writer, const std::string& name, DType dtype, const Shape& shape, Bytes bytes,
           const TensorOptions& options = {}) {
    kept_.push_back(std::make_unique<Bytes>(std::move(bytes)));
    expect_ok(writer.add(name, TensorView{dtype, shape, *kept_.back()}, options));
  }

  void fill(Writer& writer) {
    const auto values = rows_of(1, 60, 100);
    add(writer, "f32", DType::kF32, {60, 100}, as_bytes(values));
    add(writer, "bf16", DType::kBF16, {60, 100}, bf16_of(values));
    add(writer, "f64", DType::kF64, {60, 100}, f64_of(values));
    add(writer, "f16", DType::kF16, {6000}, bf16_of(rows_of(2, 60, 100)));
    add(writer, "c64", DType::kC64, {30, 100}, as_bytes(values));
    add(writer, "e5m2", DType::kF8E5M2, {5000}, noise(3, 5000));
    add(writer, "e4m3", DType::kF8E4M3, {5000}, noise(4, 5000));
    add(writer, "i32", DType::kI32, {3000}, as_bytes(std::vector<int>(3000, 7)));
    add(writer, "u8", DType::kU8, {5000}, noise(5, 5000));
    add(writer, "f4", DType::kF4, {6000}, noise(6, 3000));
    add(writer, "raw", DType::kF32, {5000}, noise(7, 20000), {.codec = CodecChoice::kRaw});
    add(writer, "zeros", DType::kF32, {5000}, Bytes(20000));
    add(writer, "sparse", DType::kF32, {60, 100}, as_bytes(sparse(values)));
    add(writer, "small", DType::kF32, {3, 5}, as_bytes(rows_of(8, 3, 5)));
    add(writer, "scalar", DType::kF32, {}, as_bytes(std::vector<float>{1.5F}));
    add(writer, "empty", DType::kF32, {0, 4}, {});
    add(writer, "twin", DType::kF32, {60, 100}, as_bytes(values));
    for (const auto& [name, dtype, data] : {std::tuple{"f32", DType::kF32, as_bytes(values)},
                                            {"bf16", DType::kBF16, bf16_of(values)},
                                            {"f64", DType::kF64, f64_of(values)}}) {
      add(writer, std::string("direct ") + name, dtype, {60, 100}, data, {.max_abs_error = 1e-2});
      add(writer, std::string("rows ") + name, dtype, {60, 100}, data,
          {.max_rel_error = 1e-2, .per_row = true});
    }
    add(writer, "direct sparse", DType::kF32, {60, 100}, as_bytes(sparse(values)),
        {.max_abs_error = 1e-3});
    add(writer, "direct kernels", DType::kF32, {40, 16, 3, 3}, as_bytes(kernels()),
        {.max_abs_error = 1e-3});
    add(writer, "spectral", DType::kF32, {60, 100}, as_bytes(values), {.nmse = 1e-2});
    const std::vector<std::uint64_t> turned{1, 100};
    const std::vector<std::uint64_t> rows{100, 1};
    expect_ok(writer.add_alias("turned", "f32", 0, {100, 60}, turned));
    expect_ok(writer.add_alias("some rows", "f32", 700, {20, 100}, rows));
    expect_ok(writer.add_alias("some columns", "bf16", 3, {60, 10}, rows));
    expect_ok(writer.add_alias("tied", "f64", 0, {60, 100}, rows));
  }

  // Smooth kernels, whose values predict each other.
  static std::vector<float> kernels() {
    auto values = rows_of(9, 40, 144);
    for (std::size_t i = 1; i < values.size(); ++i) {
      values[i] = i % 9 == 0 ? values[i] : values[i - 1] * 0.75F + values[i] * 0.1F;
    }
    return values;
  }

  std::vector<std::unique_ptr<Bytes>> kept_;
  Bytes bytes_;
};

// Each with the file in the memory of the host, and of the device.
class DeviceLoad : public testing::TestWithParam<FileIn> {
 protected:
  // The file of many tensors.
  const Reader& reader() {
    if (!reader_) {
      reader_ = open({});
    }
    return *reader_;
  }
  Reader open(const DecodeOptions& options) { return take(file_.open(options)); }
  const Bytes& bytes() const { return many_.bytes(); }
  const Record& record(const std::string& name) { return *reader().find(name); }

 private:
  const ManyTensors many_;
  const PlacedFile file_{many_.bytes(), GetParam()};
  std::optional<Reader> reader_;
};

class EmulatedLoad : public DeviceLoad {};

const auto kPlaces = testing::Values(FileIn::kHostMemory, FileIn::kDeviceMemory);

std::string place_name(const testing::TestParamInfo<FileIn>& place) {
  return place.param == FileIn::kHostMemory ? "FileOfTheHost" : "FileOfTheDevice";
}

INSTANTIATE_TEST_SUITE_P(Places, DeviceLoad, kPlaces, place_name);
INSTANTIATE_TEST_SUITE_P(Places, EmulatedLoad, kPlaces, place_name);

TEST_P(DeviceLoad, AllTensorsAreThoseOfTheHost) {
  expect_as_on_host(reader());
  const DeviceLoadResult loaded = load_all(reader());
  EXPECT_GT(loaded.summary.device_bytes, 300000u);
  EXPECT_GE(loaded.summary.host_bytes, 24000u);  // spectral, at least
  EXPECT_LT(loaded.summary.host_bytes, 120000u);
}

TEST_P(EmulatedLoad, WorkThatIsDoneAtOnceGivesTheSame) {
  const FakeSettings settings("eager");
  expect_as_on_host(reader());
}

// Many slots and passes; and scratch memory in which few chunks fit, or none.
TEST_P(DeviceLoad, LittleMemory) {
  for (const std::size_t scratch_bytes : {0u, 3000u, 40000u, 1u << 20}) {
    for (const std::size_t part_bytes : {1u, 100000u}) {
      for (const char* const settings : {"", "eager"}) {
        const FakeSettings words(settings);
        expect_as_on_host(reader(), {.part_bytes = part_bytes, .scratch_bytes = scratch_bytes});
      }
    }
  }
}

TEST_P(DeviceLoad, TheStageZstdIsTheHosts) {
  const ManyTensors many(EntropyId::kZstd);
  const PlacedFile file(many.bytes(), GetParam());
  expect_as_on_host(take(file.open()));
}

TEST_P(DeviceLoad, EveryTensorAlone) {
  for (const auto& [name, bytes] : all_tensors(reader())) {
    const DeviceMemory memory(bytes.size());
    const cuda::Read read{reader().find(name), memory.bytes()};
    const auto summary = run(reader(), {&read, 1});
    ASSERT_TRUE(summary) << name << ": " << summary.error().to_string();
    EXPECT_EQ(memory.values(), bytes) << name;
  }
}

TEST_P(DeviceLoad, BoxesAreThoseOfTheHost) {
  for (const char* name : {"f32", "bf16", "c64", "direct f32", "rows f64", "sparse", "spectral",
                           "turned", "some columns", "direct kernels", "small"}) {
    const Record& record = this->record(name);
    std::vector<std::uint64_t> starts;
    std::vector<std::uint64_t> stops;
    for (const std::uint64_t side : record.shape) {
      starts.push_back(side / 3);
      stops.push_back(side - side / 4);
    }
    const auto on_device = load_box(reader(), record, starts, stops);
    ASSERT_TRUE(on_device) << name << ": " << on_device.error().to_string();
    Bytes on_host(on_device->size());
    expect_ok(reader().read_slice(record, starts, stops, on_host));
    EXPECT_EQ(*on_device, on_host) << name;
  }
}

TEST_P(DeviceLoad, WithoutHashes) { expect_as_on_host(open({.verify_chunks = false})); }

TEST_P(DeviceLoad, NothingToRead) { EXPECT_TRUE(run(reader(), {})); }

// Every byte of the file that belongs to a chunk, damaged in turn.
TEST_P(DeviceLoad, DamageIsReportedAsByTheHost) {
  Random random(11);
  for (int trial = 0; trial < 60; ++trial) {
    Bytes damaged = bytes();
    damaged[random.below(damaged.size() * 9 / 10)] ^= std::byte{0x10};
    const PlacedFile file(damaged, GetParam());
    const auto reader = file.open();
    if (!reader) continue;
    std::map<std::string, Bytes> values;
    const auto on_host = read_all(*reader, values);
    const DeviceLoadResult on_device = load_all(*reader);
    ASSERT_EQ(bool(on_host), bool(on_device.result)) << trial;
    if (!on_host) {
      EXPECT_EQ(on_device.result.error().to_string(), on_host.error().to_string()) << trial;
    }
  }
}

// Without hashes, so that the kernels see the damage.
TEST_P(DeviceLoad, DamageWithoutHashesIsReportedAsByTheHost) {
  Random random(12);
  for (int trial = 0; trial < 60; ++trial) {
    Bytes damaged = bytes();
    damaged[random.below(damaged.size() * 9 / 10)] ^= static_cast<std::byte>(1 << random.below(8));
    const PlacedFile file(damaged, GetParam());
    const auto reader = file.open({.threads = 1, .verify_chunks = false});
    if (!reader) continue;
    std::map<std::string, Bytes> values;
    const auto on_host = read_all(*reader, values);
    const DeviceLoadResult on_device = load_all(*reader);
    ASSERT_EQ(bool(on_host), bool(on_device.result))
        << trial << ": "
        << (on_host ? on_device.result.error().to_string() : on_host.error().to_string());
    if (!on_host) {
      EXPECT_EQ(on_device.result.error().to_string(), on_host.error().to_string()) << trial;
      continue;
    }
    for (const auto& [name, bytes] : values) {
      EXPECT_EQ(on_device.tensors.at(name), bytes) << trial << " " << name;
    }
  }
}

TEST_P(EmulatedLoad, ADeviceThatRefusesGoodChunksIsABug) {
  // The first kernel that decodes; headers are fetched by one before it.
  const FakeSettings settings(GetParam() == FileIn::kHostMemory ? "damage=3" : "damage=4");
  const DeviceLoadResult loaded = load_all(reader());
  ASSERT_FALSE(loaded.result);
  EXPECT_EQ(loaded.result.error().code, ErrorCode::kInternal);
  EXPECT_NE(loaded.result.error().message.find("disagree"), std::string::npos);
  EXPECT_FALSE(loaded.result.error().record.empty());
}

TEST_P(EmulatedLoad, ErrorsOfTheDriverAreReported) {
  for (const char* call :
       {"MemcpyHtoDAsync:1:2", "MemcpyHtoDAsync:2:719", "LaunchKernel:2:719", "LaunchKernel:5:700",
        "MemcpyDtoHAsync:1:719", "EventRecord:1:2", "EventSynchronize:1:719", "StreamCreate:1:2",
        "StreamWaitEvent:2:1", "CtxPushCurrent:4:201", "EventCreate:1:2",
        "PointerGetAttribute:1:719"}) {
    const FakeSettings settings(std::string("fail=") + call);
    const DeviceLoadResult loaded = load_all(reader());
    ASSERT_FALSE(loaded.result) << call;
    const bool is_memory = std::string(call).ends_with(":2");
    EXPECT_EQ(loaded.result.error().code, is_memory ? ErrorCode::kOutOfMemory : ErrorCode::kIo)
        << call << ": " << loaded.result.error().to_string();
  }
  expect_as_on_host(reader());  // the process is none the worse for it
}

// The first load of a process takes memory for tables, after that for its output and its workspace.
TEST(EmulatedTables, NoMemoryForThem) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto load = [](const char* settings) {
    const Bytes tensor = as_bytes(rows_of(5, 8, 1024));
    const PlacedFile file(write_file([&](Writer& writer) {
                            expect_ok(writer.add("a", TensorView{DType::kF32, {8, 1024}, tensor}));
                          }),
                          FileIn::kHostMemory);
    const Reader reader = take(file.open());
    {
      const FakeSettings failing(settings);
      const DeviceLoadResult failed = load_all(reader);
      std::fprintf(stderr, "%s\n",
                   failed.result ? "loaded" : failed.result.error().to_string().c_str());
    }
    expect_as_on_host(reader);  // the next load makes them
    std::exit(testing::Test::HasFailure() ? 1 : 0);
  };
  const testing::ExitedWithCode done(0);
  EXPECT_EXIT(load("fail=MemAlloc:3:2"), done, "cannot reserve memory: out of memory");
  EXPECT_EXIT(load("fail=MemcpyHtoDAsync:1:719"), done, "cannot copy to the device");
  EXPECT_EXIT(load("fail=StreamSynchronize:1:719"), done, "cannot copy to the device");
}

// More than a slot of compressed bytes has room for: chunks wait for another slot, and none is left
// to the host.
TEST_P(DeviceLoad, ManyMasks) {
  const Bytes tensor = as_bytes(sparse(rows_of(5, 1024, 1024)));
  EncodeOptions options;
  options.chunk_elems = 1 << 16;
  const Bytes file_bytes = write_file(
      [&](Writer& writer) {
        expect_ok(writer.add("masked", TensorView{DType::kF32, {1024, 1024}, tensor}));
      },
      options);
  const PlacedFile file(file_bytes, GetParam());
  const DeviceLoadResult loaded = load_all(take(file.open()), {.part_bytes = 600000});
  expect_ok(loaded.result);
  EXPECT_EQ(loaded.tensors.at("masked"), tensor);
  EXPECT_EQ(loaded.summary.device_bytes, tensor.size());
  EXPECT_EQ(loaded.summary.host_bytes, std::uint64_t{1} << 17);  // the masks
}

TEST_P(DeviceLoad, ProgressIsToldAndCancels) {
  std::uint64_t told = 0;
  const auto listen = [&](std::uint64_t done, std::string_view) {
    told = done;
    return true;
  };
  expect_ok(load_all(reader(), {.progress = listen}).result);
  std::uint64_t total = 0;
  for (const Record& record : reader().records()) {
    total += record.hidden ? 0 : record.decoded_bytes;
  }
  EXPECT_EQ(told, total);
  const DeviceLoadResult loaded =
      load_all(reader(), {.progress = [](std::uint64_t, std::string_view) { return false; }});
  ASSERT_FALSE(loaded.result);
  EXPECT_EQ(loaded.result.error().code, ErrorCode::kCancelled);
}

TEST_P(EmulatedLoad, ALoadThatFailedIsNotFinished) {
  const Record& record = this->record("f32");
  const DeviceMemory out(record.decoded_bytes);
  const cuda::Read read{&record, out.bytes()};
  auto decoder = take(cuda::Decoder::plan(reader(), {&read, 1}, 0));
  const DeviceMemory workspace(decoder.workspace_bytes());
  Bytes staging(decoder.staging_bytes());
  EXPECT_FALSE(decoder.enqueue(nullptr, staging, {}));
  EXPECT_FALSE(decoder.enqueue(workspace.bytes().data(), {}, {}));
  const FakeSettings settings("fail=LaunchKernel:1:719");
  EXPECT_FALSE(decoder.enqueue(workspace.bytes().data(), staging, {}));
  EXPECT_EQ(decoder.finish().error().code, ErrorCode::kInvalidArgument);
}

TEST_P(DeviceLoad, WrongMemoryIsRefused) {
  const Record& record = this->record("f32");
  const DeviceMemory out(record.decoded_bytes + 4);
  const auto plan = [&](MutableBytes bytes) {
    const cuda::Read read{&record, bytes};
    return cuda::Decoder::plan(reader(), {&read, 1}, 0);
  };
  EXPECT_EQ(plan(out.bytes()).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(plan(out.bytes().subspan(2, record.decoded_bytes)).error().code,
            ErrorCode::kInvalidArgument);
  auto decoder = take(plan(out.bytes().first(record.decoded_bytes)));
  EXPECT_FALSE(decoder.finish());
  const DeviceMemory workspace(decoder.workspace_bytes());
  Bytes staging(decoder.staging_bytes());
  EXPECT_FALSE(decoder.enqueue(workspace.bytes().data() + 8, staging, {}));
  EXPECT_FALSE(decoder.enqueue(workspace.bytes().data(), MutableBytes(staging).first(100), {}));
  EXPECT_FALSE(decoder.enqueue(workspace.bytes().data(), staging, {1, nullptr}));
  expect_ok(decoder.enqueue(workspace.bytes().data(), staging, {}));
  EXPECT_FALSE(decoder.enqueue(workspace.bytes().data(), staging, {}));
  EXPECT_TRUE(decoder.finish());
}

TEST(EmulatedDeviceSource, ReadsAndRefuses) {
  const ManyTensors many;
  const DeviceMemory memory(many.bytes());
  const auto source =
      take(cuda::DeviceSource::open(0, memory.bytes().data(), memory.bytes().size()));
  EXPECT_EQ(source->size(), many.bytes().size());
  EXPECT_EQ(source->on_device({DeviceKind::kCuda, 0}), memory.bytes().data());
  EXPECT_EQ(source->on_device({DeviceKind::kCuda, 1}), nullptr);
  EXPECT_EQ(source->on_device({}), nullptr);
  Bytes out(100);
  expect_ok(source->read_at(50, out));
  EXPECT_TRUE(std::ranges::equal(out, ByteView(many.bytes()).subspan(50, 100)));
  EXPECT_EQ(source->read_at(source->size() - 99, out).error().code, ErrorCode::kTruncated);
  EXPECT_EQ(source->read_at(~std::uint64_t{0}, out).error().code, ErrorCode::kTruncated);
  // The host reads from there too.
  const Reader reader = take(Reader::open(*source));
  EXPECT_EQ(all_tensors(reader), all_tensors(OpenFile(many.bytes()).reader()));
  const FakeSettings settings("fail=MemcpyDtoHAsync:1:719");
  EXPECT_EQ(Reader::open(*source).error().code, ErrorCode::kIo);
}

TEST(DeviceSource, NothingIsTruncated) {
  const auto source = take(cuda::DeviceSource::open(0, nullptr, 0));
  EXPECT_EQ(Reader::open(*source).error().code, ErrorCode::kTruncated);
  EXPECT_EQ(cuda::DeviceSource::open(999, nullptr, 0).error().code, ErrorCode::kUnsupported);
}

// Chunks are used where they are: the memory of a load does not grow with them.
TEST(DeviceSource, TakesLittleMemory) {
  const auto values = rows_of(3, 2000, 1024);
  const Bytes tensor = as_bytes(values);
  const Bytes file_bytes = write_file([&](Writer& writer) {
    expect_ok(writer.add("large", TensorView{DType::kF32, {2000, 1024}, tensor}));
  });
  const PlacedFile file(file_bytes, FileIn::kDeviceMemory);
  const Reader reader = take(file.open());
  const DeviceMemory out(tensor.size());
  const cuda::Read read{reader.find("large"), out.bytes()};
  const auto decoder = take(cuda::Decoder::plan(reader, {&read, 1}, 0));
  EXPECT_GT(file_bytes.size(), std::size_t{5} << 20);
  EXPECT_LT(decoder.staging_bytes(), std::size_t{3} << 19);  // of one chunk that the host decodes
}

}  // namespace
}  // namespace cfck::test
