// Recovery of what is left of damaged files.
#include <algorithm>
#include <set>

#include "format/container/container.hpp"
#include "format/read/reader_access.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {
namespace {

using Names = std::vector<std::string>;

struct Repaired {
  RepairReport report;
  Bytes bytes;
};

Result<Repaired> repaired(const Bytes& damaged) {
  const TemporaryFolder folder;
  put_bytes(folder.path("damaged"), damaged);
  CFCK_TRY_ASSIGN(RepairReport report, repair(folder.path("damaged"), folder.path("out")));
  return Repaired{std::move(report), bytes_of(folder.path("out"))};
}

// A small file of two generations, and how long the first is.
struct TwoGenerations {
  Bytes bytes;
  std::size_t first_bytes;
  std::map<std::string, Bytes> old_tensors;
};

TwoGenerations two_generations() {
  const TemporaryFolder folder;
  const std::string path = folder.path("f");
  const Bytes a = weights(1, 20);
  const Bytes b = noise(2, 200);
  put_bytes(path, write_file([&](Writer& writer) {
              expect_ok(writer.add("a", TensorView{DType::kF32, {20}, a}));
              expect_ok(writer.add("b", TensorView{DType::kU8, {200}, b}));
              expect_ok(writer.set_metadata("k", "v"));
            }));
  TwoGenerations result;
  result.first_bytes = bytes_of(path).size();
  result.old_tensors = {{"a", a}, {"b", b}};
  const Bytes c = noise(3, 20000);
  Update changes;
  changes.tensors = {{"c", DType::kU8, {20000}, {1}, c.data()},
                     {"a", DType::kU8, {50}, {1}, c.data() + 19950}};
  take(update(path, changes));
  result.bytes = bytes_of(path);
  return result;
}

TEST(Repair, AnAppendTornAnywhereGivesTheGenerationBefore) {
  const TwoGenerations whole = two_generations();
  const OpenFile original(Bytes(
      whole.bytes.begin(), whole.bytes.begin() + static_cast<std::ptrdiff_t>(whole.first_bytes)));
  for (std::size_t length = whole.first_bytes + 1;
       length<whole.bytes.size(); length += length> whole.first_bytes + 200 &&
               length + 1000 < whole.bytes.size()
           ? 97
           : 1) {
    const Bytes torn(whole.bytes.begin(),
                     whole.bytes.begin() + static_cast<std::ptrdiff_t>(length));
    const MemorySource source(torn);
    const Result<Reader> opened = Reader::open(source);
    ASSERT_FALSE(opened) << length;
    EXPECT_EQ(opened.error().code, ErrorCode::kTruncated) << opened.error().to_string();
    EXPECT_NE(opened.error().message.find("generation 0"), std::string::npos)
        << opened.error().to_string();
    EXPECT_NE(opened.error().message.find("repair"), std::string::npos);
    const Repaired back = take(repaired(torn));
    EXPECT_EQ(back.report.generation, 0U);
    EXPECT_EQ(back.report.end_bytes, whole.first_bytes);
    EXPECT_EQ(back.report.n_records, 2U);
    EXPECT_TRUE(back.report.lost.empty());
    ASSERT_EQ(back.bytes == original.bytes(), true) << length;
  }
}

TEST(Repair, AWholeFileGivesItsCompactForm) {
  const TwoGenerations whole = two_generations();
  const Repaired back = take(repaired(whole.bytes));
  EXPECT_EQ(back.report.generation, 1U);
  EXPECT_EQ(back.report.n_records, 3U);
  EXPECT_EQ(all_tensors(OpenFile(back.bytes).reader()),
            all_tensors(OpenFile(whole.bytes).reader()));
  const TemporaryFolder folder;
  put_bytes(folder.path("f"), whole.bytes);
  take(compact(folder.path("f")));
  EXPECT_EQ(bytes_of(folder.path("f")), back.bytes);
}

TEST(Repair, WithoutAWholeGenerationNothingIsWritten) {
  const TwoGenerations whole = two_generations();
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{16},
                                   whole.first_bytes - 129, whole.first_bytes - 1}) {
    const TemporaryFolder folder;
    put_bytes(folder.path("f"), ByteView(whole.bytes).first(length));
    const Result<RepairReport> refused = repair(folder.path("f"), folder.path("out"));
    ASSERT_FALSE(refused) << length;
    EXPECT_EQ(refused.error().code, ErrorCode::kCorrupt) << refused.error().to_string();
    EXPECT_EQ(folder.names(), Names{"f"});
  }
  const TemporaryFolder folder;
  const Result<RepairReport> missing = repair(folder.path("f"), folder.path("out"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

TEST(Repair, NeverReplacesAFile) {
  const TwoGenerations whole = two_generations();
  const TemporaryFolder folder;
  put_bytes(folder.path("f"), whole.bytes);
  put_bytes(folder.path("out"), ByteView(whole.bytes).first(5));
  for (const char* out : {"f", "out"}) {
    const Result<RepairReport> refused = repair(folder.path("f"), folder.path(out));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kExists);
  }
  EXPECT_EQ(bytes_of(folder.path("out")).size(), 5U);
  EXPECT_EQ(bytes_of(folder.path("f")), whole.bytes);
}

// A file in which a record of every kind can be damaged.
Bytes file_of_every_kind() {
  static const Bytes memory = weights(5, 300000);
  static const Bytes copy = memory;
  static const Bytes raw = noise(6, 3 << 20);
  static const Bytes small = weights(7, 300);
  const auto view = [](std::string name, const Bytes& bytes, std::size_t first, std::size_t n) {
    return StridedTensor{std::move(name), DType::kF32, {n}, {1}, bytes.data() + 4 * first};
  };
  return write_file([&](Writer& writer) {
    expect_ok(writer.add_tensors(
        std::vector{view("base", memory, 0, 300000), view("alias", memory, 1000, 50)}));
    expect_ok(writer.add("owner", TensorView{DType::kU8, {raw.size()}, raw}));
    expect_ok(writer.add("twin", TensorView{DType::kU8, {raw.size()}, raw}));
    expect_ok(writer.add_tensors(
        std::vector{view("left", copy, 0, 200000), view("right", copy, 100000, 200000)}));
    expect_ok(writer.add("small", TensorView{DType::kF32, {300}, small}));
    expect_ok(writer.add("tiny", TensorView{DType::kF32, {10}, ByteView(small).first(40)}));
    expect_ok(writer.add("empty", TensorView{DType::kF32, {0}, {}}));
    expect_ok(writer.attach("notes", small));
  });
}

TEST(Repair, RecordsWithDamagedBytesAreLeftOutWithAllThatNeedThem) {
  const Bytes whole = file_of_every_kind();
  const OpenFile original(whole);
  const std::map<std::string, Bytes> tensors = all_tensors(original.reader());
  const format::Index& index = ReaderAccess::index(original.reader());
  std::vector<std::pair<std::uint64_t, std::set<std::string>>> cases = {
      {index.packs[0].offset_bytes + 8, {"small", "tiny"}},
      {index.packs[0].offset_bytes + 20, {"small"}},
      {index.packs[0].offset_bytes + index.packs[0].n_bytes - 1, {"tiny"}},
      {ReaderAccess::metadata(original.reader()).attachments[0].extent.offset_bytes + 9,
       {"attachment notes"}}};
  for (const format::StoredRecord& stored : index.records) {
    const Record& record = stored.record;
    if (record.kind == RecordKind::kChunked && record.n_elems > 0) {
      const std::set<std::string> lost =
          record.hidden ? std::set<std::string>{"left", "right"}
                        : (record.name == "base" ? std::set<std::string>{"base", "alias"}
                                                 : std::set<std::string>{"owner", "twin"});
      for (const std::uint64_t at : {std::uint64_t{0}, std::uint64_t{13}, record.stored_bytes / 2,
                                     record.stored_bytes - 1}) {
        cases.push_back({stored.offset_bytes + at, lost});
      }
    }
  }
  ASSERT_EQ(cases.size(), 16U);
  for (const auto& [offset, lost] : cases) {
    Bytes damaged = whole;
    damaged[offset] ^= std::byte{0x10};
    const Repaired back = take(repaired(damaged));
    EXPECT_EQ(std::set<std::string>(back.report.lost.begin(), back.report.lost.end()), lost)
        << "byte " << offset;
    std::map<std::string, Bytes> expected = tensors;
    std::erase_if(expected, [&](const auto& tensor) { return lost.contains(tensor.first); });
    const OpenFile file(back.bytes);
    EXPECT_EQ(all_tensors(file.reader()) == expected, true) << "byte " << offset;
    EXPECT_EQ(back.report.n_records, expected.size());
    expect_sound(file.reader());
  }
}

// Three generations; "w" is saved, replaced and replaced again, "small" is packed, "tied" is a
// part of "base", and "only" comes with the last.
struct ManyGenerations {
  Bytes bytes;
  std::map<std::string, Bytes> tensors[3];
};

ManyGenerations three_generations() {
  const TemporaryFolder folder;
  const std::string path = folder.path("f");
  ManyGenerations all;
  for (std::uint64_t generation = 0; generation < 3; ++generation) {
    std::map<std::string, Bytes>& tensors = all.tensors[generation];
    tensors["w"] = noise(10 + generation, 30000);
    tensors["small"] = noise(20 + generation, 100);
    tensors["base"] = noise(30 + generation, 40000);
    tensors["tied"] = Bytes(tensors["base"].begin() + 100, tensors["base"].begin() + 200);
    std::vector<StridedTensor> list;
    const auto add = [&](const char* name, const Bytes& memory, std::size_t first, std::size_t n) {
      list.push_back({name, DType::kU8, {n}, {1}, memory.data() + first});
    };
    add("w", tensors["w"], 0, 30000);
    add("small", tensors["small"], 0, 100);
    add("base", tensors["base"], 0, 40000);
    add("tied", tensors["base"], 100, 100);
    if (generation == 2) {
      tensors["only"] = noise(40, 20000);
      add("only", tensors["only"], 0, 20000);
    }
    if (generation == 0) {
      put_bytes(path, write_file([&](Writer& writer) { expect_ok(writer.add_tensors(list)); }));
    } else {
      take(update(path, {list, {}, {}}));
    }
  }
  all.bytes = bytes_of(path);
  return all;
}

// Returns where bytes of a tensor are, in the generation that ends at `end_bytes`.
std::uint64_t place_of(const Bytes& bytes, std::uint64_t end_bytes, const std::string& name) {
  const OpenFile file(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(end_bytes)));
  const format::Index& index = ReaderAccess::index(file.reader());
  for (const format::StoredRecord& stored : index.records) {
    if (stored.record.name == name) {
      return stored.record.kind == RecordKind::kPacked
                 ? index.packs[stored.pack].offset_bytes + stored.pack_offset + 5
                 : stored.offset_bytes + stored.record.stored_bytes / 2;
    }
  }
  ADD_FAILURE() << name;
  return 0;
}

std::uint64_t end_before(const Bytes& bytes, std::uint64_t end_bytes) {
  const OpenFile file(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(end_bytes)));
  return ReaderAccess::tail(file.reader()).previous_file_bytes;
}

TEST(Repair, WhatIsDamagedComesFromAnOlderGenerationThatHasItWhole) {
  const ManyGenerations all = three_generations();
  const std::uint64_t ends[3] = {end_before(all.bytes, end_before(all.bytes, all.bytes.size())),
                                 end_before(all.bytes, all.bytes.size()), all.bytes.size()};
  using Places = std::vector<std::pair<int, const char*>>;
  const struct {
    Places damaged;
    std::map<std::string, std::uint64_t> older;
    Names lost;
  } cases[] = {
      {{{2, "w"}}, {{"w", 1}}, {}},
      {{{2, "small"}}, {{"small", 1}}, {}},
      {{{2, "base"}}, {{"base", 1}, {"tied", 1}}, {}},
      {{{2, "only"}}, {}, {"only"}},
      {{{2, "w"}, {1, "w"}}, {{"w", 0}}, {}},
      {{{2, "w"}, {1, "w"}, {0, "w"}}, {}, {"w"}},
      {{{2, "w"}, {2, "base"}, {1, "base"}}, {{"w", 1}, {"base", 0}, {"tied", 0}}, {}},
  };
  for (const auto& c : cases) {
    Bytes bytes = all.bytes;
    for (const auto& [generation, name] : c.damaged) {
      bytes[place_of(all.bytes, ends[generation], name)] ^= std::byte{1};
    }
    const Repaired back = take(repaired(bytes));
    std::map<std::string, std::uint64_t> older;
    for (const OlderRecord& record : back.report.older) {
      older[record.name] = record.generation;
    }
    EXPECT_EQ(older, c.older);
    EXPECT_EQ(back.report.lost, c.lost);
    std::map<std::string, Bytes> expected = all.tensors[2];
    for (const auto& [name, generation] : c.older) {
      expected[name] = all.tensors[generation].at(name);
    }
    for (const std::string& name : c.lost) {
      expected.erase(name);
    }
    const OpenFile file(back.bytes);
    EXPECT_EQ(all_tensors(file.reader()) == expected, true);
    EXPECT_EQ(file.record("tied").kind, RecordKind::kAlias);
    EXPECT_EQ(back.report.n_records, expected.size());
    expect_sound(file.reader());
  }
}

TEST(Repair, BytesThatLookLikeFramesInsideATensorAreNotTrusted) {
  const TwoGenerations inner = two_generations();
  const TemporaryFolder folder;
  const std::string path = folder.path("f");
  EncodeOptions raw;
  raw.codec = CodecChoice::kRaw;
  const Bytes honest = noise(9, 100);
  put_bytes(path, write_file([&](Writer& writer) {
              expect_ok(writer.add("honest", TensorView{DType::kU8, {100}, honest}));
            }));
  const Bytes before = bytes_of(path);
  Update changes;
  changes.tensors = {{"trap", DType::kU8, {inner.bytes.size()}, {1}, inner.bytes.data()}};
  take(update(path, changes, raw));
  Bytes torn = bytes_of(path);
  torn.resize(torn.size() - 1);
  const Repaired back = take(repaired(torn));
  EXPECT_EQ(back.report.end_bytes, before.size());
  EXPECT_EQ(back.bytes, before);
}

}  // namespace
}  // namespace cfck::test
