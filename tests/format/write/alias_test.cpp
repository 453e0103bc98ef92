// Tensors that share memory: the plan, and the tensors that are read back.
#include <array>
#include <cstring>

#include "format/write/sharing/alias_plan.hpp"
#include "format/write/sharing/gather_source.hpp"
#include "format/write/sharing/view_overlap.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {
namespace {

using Strides = std::vector<std::uint64_t>;

// A view of F32 memory; `first` counts elements.
StridedTensor view_of(const Bytes& memory, std::string name, std::size_t first, Shape shape,
                      Strides strides) {
  return {std::move(name), DType::kF32, std::move(shape), std::move(strides),
          memory.data() + 4 * first};
}

// Collects the view's elements in row-major order, one by one.
Bytes elements_of(const StridedTensor& tensor) {
  const std::uint64_t total = take(n_elems(tensor.shape));
  const std::size_t elem_bytes = bits_per_element(tensor.dtype) / 8;
  Bytes bytes;
  for (std::uint64_t i = 0; i < total; ++i) {
    std::uint64_t left = i;
    std::uint64_t place = 0;
    for (std::size_t axis = tensor.shape.size(); axis-- > 0;) {
      place += left % tensor.shape[axis] * tensor.strides[axis];
      left /= tensor.shape[axis];
    }
    const std::byte* from = tensor.data + place * elem_bytes;
    bytes.insert(bytes.end(), from, from + elem_bytes);
  }
  return bytes;
}

OpenFile file_of(const std::vector<StridedTensor>& tensors,
                 CodecChoice codec = CodecChoice::kAuto) {
  EncodeOptions options;
  options.codec = codec;
  options.chunk_elems = 500;
  OpenFile file(
      write_file([&](Writer& writer) { expect_ok(writer.add_tensors(tensors)); }, options));
  for (const StridedTensor& tensor : tensors) {
    EXPECT_EQ(file.tensor(tensor.name) == elements_of(tensor), true) << tensor.name;
  }
  expect_sound(file.reader());
  return file;
}

std::size_t n_hidden(const OpenFile& file) {
  std::size_t n = 0;
  for (const Record& record : file->records()) {
    n += record.hidden ? 1 : 0;
  }
  return n;
}

TEST(Alias, TheFirstMemberThatCoversTheOthersIsTheBase) {
  const Bytes memory = weights(1, 6000);
  const OpenFile file = file_of({view_of(memory, "rows", 100, {10, 10}, {10, 1}),
                                 view_of(memory, "whole", 0, {60, 100}, {100, 1}),
                                 view_of(memory, "flat", 0, {6000}, {1}),
                                 view_of(memory, "transposed", 0, {100, 60}, {1, 100})});
  EXPECT_EQ(n_hidden(file), 0U);
  EXPECT_EQ(file.record("whole").kind, RecordKind::kChunked);
  for (const char* name : {"rows", "flat", "transposed"}) {
    EXPECT_EQ(file.record(name).kind, RecordKind::kAlias) << name;
    EXPECT_EQ(file->records()[file.record(name).base].name, "whole") << name;
  }
  EXPECT_EQ(file.record("rows").element_offset, 100U);
  EXPECT_EQ(file.record("transposed").strides, (Strides{1, 100}));
  EXPECT_EQ(file->records()[0].name, "rows") << "not in the order given";
}

TEST(Alias, WithoutSuchAMemberTheMemoryIsAHiddenRecord) {
  const Bytes memory = weights(2, 1000);
  const OpenFile file = file_of(
      {view_of(memory, "left", 100, {500}, {1}), view_of(memory, "right", 400, {500}, {1})});
  ASSERT_EQ(n_hidden(file), 1U);
  const Record& hidden = file->records()[0];
  EXPECT_TRUE(hidden.hidden);
  EXPECT_EQ(hidden.shape, (Shape{800}));
  EXPECT_EQ(file.record("left").base, 0U);
  EXPECT_EQ(file.record("right").base, 0U);
  EXPECT_EQ(file.record("right").element_offset, 300U);
}

TEST(Alias, StorageSharedWithoutOverlapGivesOrdinaryRecords) {
  const Bytes memory = weights(3, 1200);
  const OpenFile file = file_of(
      {view_of(memory, "a", 0, {400}, {1}), view_of(memory, "b", 400, {400}, {1}),
       view_of(memory, "even", 800, {100}, {2}), view_of(memory, "odd", 801, {100}, {2}),
       view_of(memory, "q", 1000, {5, 8}, {24, 1}), view_of(memory, "k", 1008, {5, 8}, {24, 1}),
       view_of(memory, "v", 1016, {5, 8}, {24, 1})});
  EXPECT_EQ(file->records().size(), 7U);
  for (const Record& record : file->records()) {
    EXPECT_NE(record.kind, RecordKind::kAlias) << record.name;
  }
}

TEST(Alias, ThePlanDoesNotDependOnAddresses) {
  const Bytes memory = weights(3, 1400);
  for (std::uint64_t start = 0; start < 48; ++start) {
    const OpenFile file = file_of({view_of(memory, "q", start, {5, 8}, {24, 1}),
                                   view_of(memory, "k", start + 8, {5, 8}, {24, 1}),
                                   view_of(memory, "v", start + 16, {5, 8}, {24, 1})});
    EXPECT_EQ(file->records().size(), 3U) << start;
    EXPECT_EQ(n_hidden(file), 0U) << start;
  }
}

TEST(Alias, ExpandedTensorsAreAliasesOfTheirMemory) {
  const Bytes memory = weights(4, 100);
  const OpenFile file = file_of({view_of(memory, "scalar", 3, {1000, 1000}, {0, 0}),
                                 view_of(memory, "rows", 10, {50, 20}, {0, 1}),
                                 view_of(memory, "windows", 50, {40, 10}, {1, 1})});
  EXPECT_EQ(n_hidden(file), 3U);
  EXPECT_EQ(file->records()[file.record("scalar").base].n_elems, 1U);
  EXPECT_EQ(file->records()[file.record("rows").base].n_elems, 20U);
  EXPECT_EQ(file->records()[file.record("windows").base].n_elems, 49U);
}

TEST(Alias, ALonelyViewIsStoredContiguous) {
  const Bytes memory = weights(5, 100000);
  const OpenFile file = file_of({view_of(memory, "transposed", 0, {250, 200}, {1, 250}),
                                 view_of(memory, "steps", 60000, {4000}, {10})});
  for (const char* name : {"transposed", "steps"}) {
    EXPECT_EQ(file.record(name).kind, RecordKind::kChunked) << name;
    EXPECT_TRUE(file.record(name).strides.empty());
  }
}

TEST(Alias, ViewsOfAnotherDtypeOrAlignmentAreStoredApart) {
  const Bytes memory = weights(6, 1000);
  StridedTensor bytes{"bytes", DType::kU8, {4000}, {1}, memory.data()};
  StridedTensor shifted{"shifted", DType::kF32, {900}, {1}, memory.data() + 2};
  const OpenFile file = file_of({view_of(memory, "floats", 0, {1000}, {1}), bytes, shifted});
  EXPECT_EQ(file->records().size(), 3U);
  for (const Record& record : file->records()) {
    EXPECT_NE(record.kind, RecordKind::kAlias) << record.name;
  }
}

TEST(Alias, TiedTensorsOfOneElementAndNoneComeBack) {
  const Bytes memory = weights(7, 10);
  StridedTensor nothing{"nothing", DType::kF32, {0, 4}, {4, 1}, nullptr};
  const OpenFile file = file_of(
      {view_of(memory, "zero-d", 1, {}, {}), view_of(memory, "one", 1, {1, 1}, {7, 9}), nothing});
  EXPECT_EQ(file.record("one").kind, RecordKind::kAlias);
  EXPECT_EQ(file.record("one").strides, (Strides{1, 1}));
  EXPECT_EQ(file.record("nothing").n_elems, 0U);
}

TEST(Alias, SubByteTensorsMayBeTiedButNotStrided) {
  const Bytes memory = noise(8, 300);
  const StridedTensor all{"all", DType::kF6E2M3, {400}, {1}, memory.data()};
  const StridedTensor part{"part", DType::kF6E2M3, {4, 8}, {8, 1}, memory.data() + 30};
  const StridedTensor odd{"odd", DType::kF6E2M3, {40}, {1}, memory.data() + 31};
  const OpenFile file(write_file([&](Writer& writer) {
    expect_ok(writer.add_tensors(std::vector{all, part, odd}));
  }));
  EXPECT_EQ(file.record("part").kind, RecordKind::kAlias);
  EXPECT_EQ(file.record("part").element_offset, 40U);
  EXPECT_NE(file.record("odd").kind, RecordKind::kAlias);
  EXPECT_EQ(file.tensor("part"), Bytes(memory.begin() + 30, memory.begin() + 54));
  EXPECT_EQ(file.tensor("odd"), Bytes(memory.begin() + 31, memory.begin() + 61));
  expect_sound(file.reader());

  MemorySink sink;
  Writer writer = take(Writer::create(sink));
  const Result<void> refused =
      writer.add_tensors(std::vector{StridedTensor{"s", DType::kF4, {8}, {2}, memory.data()}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(refused.error().record, "s");
}

TEST(Alias, ImpossibleViewsAreRefused) {
  const Bytes memory = weights(9, 10);
  const std::uint64_t far = std::uint64_t{1} << 61;
  const std::vector<std::pair<StridedTensor, ErrorCode>> cases = {
      {view_of(memory, "a", 0, {2, 5}, {1}), ErrorCode::kInvalidArgument},
      {view_of(memory, "a", 0, {2, 5}, {far, 1}), ErrorCode::kLimitExceeded},
      {view_of(memory, "a", 0, {3, 5}, {~std::uint64_t{0}, 1}), ErrorCode::kLimitExceeded},
      {StridedTensor{"a", DType::kF32, {2}, {1}, nullptr}, ErrorCode::kInvalidArgument},
      {StridedTensor{"a", static_cast<DType>(99), {2}, {1}, memory.data()},
       ErrorCode::kUnsupported},
  };
  for (const auto& [tensor, code] : cases) {
    MemorySink sink;
    Writer writer = take(Writer::create(sink));
    const Result<void> refused = writer.add_tensors(std::span(&tensor, 1));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, code) << refused.error().to_string();
    EXPECT_EQ(refused.error().record, "a");
  }
}

// True if any four bytes of the file are those of `value`.
bool holds(const OpenFile& file, float value) {
  std::array<std::byte, 4> bytes;
  std::memcpy(bytes.data(), &value, 4);
  return std::search(file.bytes().begin(), file.bytes().end(), bytes.begin(), bytes.end()) !=
         file.bytes().end();
}

TEST(Alias, WhatNoViewCoversIsNotStored) {
  constexpr float kSecret = -123456.789F;
  Bytes memory = weights(20, 100'000);
  for (std::size_t i = 0; i < 100'000; ++i) {
    if (i % 99'999 != 0) {
      std::memcpy(memory.data() + 4 * i, &kSecret, 4);
    }
  }
  const OpenFile file =
      file_of({view_of(memory, "ends", 0, {2}, {99'999}), view_of(memory, "first", 0, {1}, {1})},
              CodecChoice::kRaw);
  EXPECT_FALSE(holds(file, kSecret));
  EXPECT_LT(file.bytes().size(), 1000U);
  EXPECT_EQ(file->records().size(), 2U);
  EXPECT_EQ(file.record("ends").kind, RecordKind::kPacked);
  EXPECT_EQ(file.record("first").kind, RecordKind::kAlias) << "no longer tied";
}

TEST(Alias, AViewThatCoversTheOthersIsTheBaseAlsoWithGaps) {
  const Bytes memory = weights(21, 8000);
  const OpenFile file = file_of({view_of(memory, "eighths", 8, {900}, {8}),
                                 view_of(memory, "fourths", 0, {2000}, {4}),
                                 view_of(memory, "grid", 4, {10, 3}, {40, 12})});
  EXPECT_EQ(n_hidden(file), 0U);
  EXPECT_EQ(file.record("fourths").kind, RecordKind::kChunked);
  EXPECT_EQ(file.record("eighths").strides, (Strides{2}));
  EXPECT_EQ(file.record("eighths").element_offset, 2U);
  EXPECT_EQ(file.record("grid").strides, (Strides{10, 3}));
  for (const char* name : {"eighths", "grid"}) {
    EXPECT_EQ(file->records()[file.record(name).base].name, "fourths") << name;
  }
}

TEST(Alias, OverlappingColumnsShareAHiddenRecordOfTheirColumns) {
  const Bytes memory = weights(22, 100 * 64);
  const OpenFile file = file_of({view_of(memory, "left", 3, {100, 8}, {64, 1}),
                                 view_of(memory, "right", 9, {100, 8}, {64, 1}),
                                 view_of(memory, "turned", 9, {8, 50}, {1, 128})});
  ASSERT_EQ(n_hidden(file), 1U);
  EXPECT_EQ(file->records()[0].n_elems, 1400U);
  EXPECT_EQ(file.record("left").strides, (Strides{14, 1}));
  EXPECT_EQ(file.record("right").element_offset, 6U);
  EXPECT_EQ(file.record("turned").strides, (Strides{1, 28}));
}

TEST(Alias, AnExpandedViewWithGapsKeepsOnlyItsElements) {
  const Bytes memory = weights(23, 3000);
  const OpenFile file = file_of({view_of(memory, "expanded", 5, {400, 7}, {0, 100})});
  ASSERT_EQ(n_hidden(file), 1U);
  EXPECT_EQ(file->records()[0].n_elems, 7U);
  EXPECT_EQ(file.record("expanded").strides, (Strides{0, 1}));
}

// Returns the names that were stored separately.
std::vector<std::string> apart(const std::vector<StridedTensor>& tensors) {
  MemorySink sink;
  Writer writer = take(Writer::create(sink));
  expect_ok(writer.add_tensors(tensors));
  return take(writer.finish()).stored_apart;
}

TEST(Alias, ViewsWithoutCommonStridesAreStoredApart) {
  const Bytes memory = weights(24, 6000);
  const std::vector<StridedTensor> tensors = {
      view_of(memory, "halves", 0, {3000}, {2}), view_of(memory, "thirds", 0, {2000}, {3}),
      view_of(memory, "halves again", 0, {3000}, {2}), view_of(memory, "other", 0, {0}, {1})};
  const OpenFile file = file_of(tensors);
  EXPECT_EQ(n_hidden(file), 0U);
  EXPECT_EQ(file.record("halves").n_elems, 3000U);
  EXPECT_NE(file.record("thirds").kind, RecordKind::kAlias);
  EXPECT_EQ(file.record("halves again").kind, RecordKind::kAlias) << "no longer tied";
  EXPECT_EQ(apart(tensors), (std::vector<std::string>{"halves", "halves again"}));
}

TEST(Alias, OneViewThatDoesNotFitLeavesTheOthersTied) {
  const Bytes memory = weights(25, 1000);
  const std::vector<StridedTensor> tensors = {view_of(memory, "w", 0, {10}, {1}),
                                              view_of(memory, "tied to w", 0, {10}, {1}),
                                              view_of(memory, "sevenths", 5, {100}, {7})};
  const OpenFile file = file_of(tensors);
  EXPECT_EQ(file->records().size(), 3U);
  EXPECT_EQ(file.record("tied to w").kind, RecordKind::kAlias);
  EXPECT_NE(file.record("sevenths").kind, RecordKind::kAlias);
  EXPECT_EQ(apart(tensors), (std::vector<std::string>{"sevenths"}));
}

TEST(Alias, TheSameViewTwiceIsTiedEvenIfItsStridesFitNothing) {
  const Bytes memory = weights(26, 100);
  const OpenFile file =
      file_of({view_of(memory, "a", 0, {3, 2}, {2, 3}), view_of(memory, "b", 0, {3, 2}, {2, 3})});
  EXPECT_EQ(n_hidden(file), 0U);
  EXPECT_EQ(file.record("b").kind, RecordKind::kAlias);
  EXPECT_EQ(file.record("b").strides, (Strides{2, 1}));
}

// {"a": w, "b": w, "c": w.clone()}, in any order.
TEST(Alias, ATensorEqualToOneWithTiesIsItsDuplicate) {
  const Bytes memory = weights(27, 3000);
  const Bytes clone = memory;
  for (int position = 0; position < 3; ++position) {
    std::vector<StridedTensor> tensors = {view_of(memory, "a", 0, {60, 50}, {50, 1}),
                                          view_of(memory, "b", 0, {60, 50}, {50, 1})};
    tensors.insert(tensors.begin() + position, view_of(clone, "c", 0, {60, 50}, {50, 1}));
    const OpenFile file = file_of(tensors);
    EXPECT_EQ(file.record("c").kind, RecordKind::kDuplicate) << position;
    EXPECT_EQ(file->records()[file.record("c").base].name, "a");
    EXPECT_EQ(file.record("b").kind, RecordKind::kAlias);
    EXPECT_EQ(file.record("c").digest, file.record("a").digest);
  }
}

// Random views of one memory: values must be restored whatever the plan is.
TEST(Alias, RandomFamiliesComeBack) {
  Random random(10);
  for (int round = 0; round < 200; ++round) {
    const Bytes memory = weights(random.next(), 2000);
    std::vector<StridedTensor> tensors;
    const std::uint64_t n = 1 + random.below(6);
    for (std::uint64_t i = 0; i < n; ++i) {
      Shape shape;
      Strides strides;
      std::uint64_t reach = 1;
      for (std::uint64_t axis = random.below(4); axis > 0; --axis) {
        shape.push_back(random.below(6));
        strides.push_back(random.below(5) * (random.below(3) == 0 ? 16 : 1));
        reach += shape.back() == 0 ? 0 : (shape.back() - 1) * strides.back();
      }
      const std::uint64_t first = random.below(8) * 50;
      ASSERT_LE(first + reach, 2000U);
      tensors.push_back(view_of(memory, std::to_string(i), first, shape, strides));
    }
    file_of(tensors, random.below(2) == 0 ? CodecChoice::kAuto : CodecChoice::kRaw);
  }
}

// Compares may_share with every element, on small views.
TEST(Alias, ViewsThatShareAreNeverToldApart) {
  Random random(11);
  std::uint64_t n_apart = 0;
  for (int round = 0; round < 20000; ++round) {
    format::StridedRange views[2];
    std::vector<std::uint64_t> places[2];
    for (int side = 0; side < 2; ++side) {
      format::StridedRange& view = views[side];
      view.start = random.below(40);
      places[side] = {view.start};
      for (std::uint64_t axis = random.below(4); axis > 0; --axis) {
        view.axes.push_back({2 + random.below(4), 1 + random.below(20)});
        std::vector<std::uint64_t> all;
        for (const std::uint64_t place : places[side]) {
          for (std::uint64_t i = 0; i < view.axes.back().size; ++i) {
            all.push_back(place + i * view.axes.back().stride);
          }
        }
        places[side] = all;
      }
      std::sort(places[side].begin(), places[side].end());
      view.covered = places[side].back() + 1 - view.start;
    }
    std::vector<std::uint64_t> common;
    std::set_intersection(places[0].begin(), places[0].end(), places[1].begin(), places[1].end(),
                          std::back_inserter(common));
    const bool may = format::may_share(views[0], views[1]);
    EXPECT_TRUE(may || common.empty());
    n_apart += may ? 0 : 1;
  }
  EXPECT_GT(n_apart, 2000U);
}

TEST(Alias, GatheringByRangeEqualsGatheringAtOnce) {
  const Bytes memory = noise(12, 8000);
  for (const DType dtype : {DType::kU8, DType::kBF16, DType::kF32, DType::kF64}) {
    const std::size_t elem_bytes = bits_per_element(dtype) / 8;
    const StridedTensor tensor{"t", dtype, {3, 1, 5, 4, 7}, {1, 99, 21, 0, 3}, memory.data()};
    const Bytes expected = elements_of(tensor);
    const format::GatherSource source(tensor.data, dtype, tensor.shape, tensor.strides);
    ASSERT_EQ(source.size(), expected.size());
    for (std::size_t first = 0; first < expected.size(); first += 13 * elem_bytes) {
      for (const std::size_t n : {std::size_t{1}, std::size_t{6}, std::size_t{50}}) {
        Bytes part(std::min(n * elem_bytes, expected.size() - first));
        expect_ok(source.read_at(first, part));
        EXPECT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + first));
      }
    }
    Bytes beyond(elem_bytes);
    EXPECT_FALSE(source.read_at(expected.size(), beyond));
  }
}

}  // namespace
}  // namespace cfck::test
