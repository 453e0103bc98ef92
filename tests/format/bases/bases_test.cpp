// Files that are stored against others.
#include <filesystem>

#include "cfck/base.hpp"
#include "format/read/reader_access.hpp"
#include "tests/format/bases/stepped.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {
namespace {

namespace fs = std::filesystem;

Reader open_against(const Bytes& file, std::shared_ptr<const Base> base) {
  DecodeOptions options;
  options.base = std::move(base);
  return take(Reader::open(std::make_unique<OwnedMemorySource>(file), options));
}

std::vector<std::string> of_codec(const Reader& reader, CodecId codec) {
  std::vector<std::string> names;
  for (const Record& record : reader.records()) {
    if (record.codec == codec) {
      names.push_back(record.name);
    }
  }
  return names;
}

ErrorCode code_of(const std::string& path, DecodeOptions options = {}) {
  const Reader reader = take(Reader::open(path, std::move(options)));
  const Result<void> checked = reader.check_base();
  const Result<OwnedTensor> tensor = reader.read("large");
  EXPECT_EQ(checked.has_value(), tensor.has_value());
  if (tensor) {
    return ErrorCode{};
  }
  EXPECT_EQ(checked.error().code, tensor.error().code);
  return tensor.error().code;
}

TEST(Base, DifferencesAreSmallAndComeBack) {
  const Tensors old = old_tensors();
  const Tensors now = new_tensors(old);
  const Bytes alone = file_of(now);
  const Bytes file = file_of(now, base_of(old));
  EXPECT_LT(file.size() * 8, alone.size());
  const Reader reader = open_against(file, base_of(old));
  EXPECT_TRUE(reader.needs_base());
  EXPECT_EQ(reader.base_name(), "");
  EXPECT_EQ(of_codec(reader, CodecId::kDelta),
            (std::vector<std::string>{"large", "middle", "same", "small"}));
  EXPECT_EQ(all_tensors(reader), values_of(now));
  expect_sound(reader);
  EXPECT_EQ(reader.content_digest(), OpenFile(alone)->content_digest());
}

TEST(Base, BytesDependOnNeitherThreadsNorWhereTheBaseIs) {
  const TemporaryFolder folder;
  const Tensors old = old_tensors();
  const Tensors now = new_tensors(old);
  save(folder.path("old.cfck"), old);
  const auto written = [&](unsigned threads, std::shared_ptr<const Base> base) {
    EncodeOptions options;
    options.threads = threads;
    options.base = std::move(base);
    return write_file([&](Writer& writer) { add_to(writer, now); }, options);
  };
  const Bytes one = written(1, base_of(old));
  EXPECT_EQ(written(5, base_of(old)), one);
  auto archive = take(TensorArchive::open(folder.path("old.cfck")));
  EXPECT_EQ(written(3, take(base_of_archive(std::move(archive)))), one);
}

TEST(Base, NeverLargerThanWithoutOne) {
  const Tensors now = new_tensors(old_tensors());
  Tensors other = now;
  for (auto& [name, tensor] : other) {
    tensor.values = noise(99, tensor.values.size());
  }
  EXPECT_EQ(file_of(now, base_of(other)), file_of(now));
  EXPECT_EQ(file_of(other, base_of(now)), file_of(other));
  // Constant values are smaller by themselves than as a difference.
  Tensors constants = now;
  for (auto& [name, tensor] : constants) {
    tensor.values = constant(3, tensor.values.size());
  }
  EXPECT_EQ(file_of(constants, base_of(now)), file_of(constants));
}

TEST(Base, OptionsThatNameACodecOrLoseSomethingTakeNone) {
  const Tensors old = old_tensors();
  const auto codecs = [&](const TensorOptions& plain) {
    EncodeOptions options;
    options.set_tensor_options(plain);
    options.base = base_of(old);
    const OpenFile file(write_file([&](Writer& writer) { add_to(writer, old); }, options));
    return of_codec(file.reader(), CodecId::kDelta);
  };
  EXPECT_TRUE(codecs({.codec = CodecChoice::kLossless}).empty());
  EXPECT_TRUE(codecs({.codec = CodecChoice::kRaw}).empty());
  EXPECT_EQ(codecs({.max_abs_error = 1e-3}), (std::vector<std::string>{"small"}))
      << "what keeps every bit may be a difference";
}

TEST(Base, TensorsOfOtherNamesShapesAndTypesAreStoredAlone) {
  Tensors old = old_tensors();
  const Tensors now = new_tensors(old);
  old["large"].shape = {700, 1000};
  old["middle"].dtype = DType::kF16;
  old["renamed"] = old["same"];
  old.erase("same");
  const Reader reader = open_against(file_of(now, base_of(old)), base_of(old));
  EXPECT_EQ(of_codec(reader, CodecId::kDelta), (std::vector<std::string>{"small"}));
  EXPECT_EQ(all_tensors(reader), values_of(now));
}

TEST(Base, FileBesideIsFoundByItsName) {
  const TemporaryFolder folder;
  const Tensors old = old_tensors();
  const Tensors now = new_tensors(old);
  save(folder.path("old.cfck"), old);
  save(folder.path("new.cfck"), now, folder.path("old.cfck"));
  const Reader reader = take(Reader::open(folder.path("new.cfck")));
  EXPECT_EQ(reader.base_name(), "old.cfck");
  expect_ok(reader.check_base());
  EXPECT_EQ(all_tensors(reader), values_of(now));
  expect_sound(reader);
}

TEST(Base, BytesInMemoryAreInNoFolder) {
  const TemporaryFolder folder;
  const Tensors old = old_tensors();
  save(folder.path("old.cfck"), old);
  save(folder.path("new.cfck"), new_tensors(old), folder.path("old.cfck"));
  const Bytes file = bytes_of(folder.path("new.cfck"));
  const fs::path before = fs::current_path();
  fs::current_path(folder.path("."));
  put_bytes("<memory>", file);  // which is how messages call such bytes
  const OpenFile in_memory(file);
  const Result<void> checked = in_memory.reader().check_base();
  fs::current_path(before);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kMissingBase);
  EXPECT_NE(checked.error().message.find("not known here"), std::string::npos);
}

TEST(Base, NamesThatAFileCannotHaveAreRefused) {
  const Tensors old = old_tensors();
  const Tensors now = new_tensors(old);
  const Bytes file = file_of(old);
  const auto against = [&](const std::string& name) {
    EncodeOptions options;
    options.base =
        take(base_of_reader(take(Reader::open(std::make_unique<OwnedMemorySource>(file))), name));
    return options;
  };
  const std::string plain = "gr\u00f6\u00dfer.cfck";
  const Bytes written = write_file([&](Writer& writer) { add_to(writer, now); }, against(plain));
  EXPECT_EQ(open_against(written, base_of(old)).base_name(), plain);
  for (const std::string& name :
       {std::string("\xff"), std::string("\xed\xa0\x80"), std::string("a/b"), std::string("a\\b"),
        std::string("."), std::string(".."), std::string("a\0b", 3), std::string(256, 'a')}) {
    MemorySink sink;
    const auto writer = Writer::create(sink, against(name));
    ASSERT_FALSE(writer) << name;
    EXPECT_EQ(writer.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(Base, SlicesDecodeTheChunksTheyTouch) {
  const Tensors old = old_tensors();
  const Tensors now = new_tensors(old);
  EncodeOptions options;
  options.base = base_of(old);
  options.chunk_elems = 7000;
  const Bytes file = write_file([&](Writer& writer) { add_to(writer, now); }, options);
  for (const bool in_file : {false, true}) {
    const std::shared_ptr<const Base> base =
        in_file ? take(base_of_reader(
                      take(Reader::open(std::make_unique<OwnedMemorySource>(file_of(old))))))
                : base_of(old);
    const Reader reader = open_against(file, base);
    const Record& record = *reader.find("large");
    EXPECT_EQ(record.n_chunks, 100U);
    Bytes slice(2 * 12 * 30);
    expect_ok(reader.read_slice(record, std::vector<std::uint64_t>{495, 20},
                                std::vector<std::uint64_t>{507, 50}, slice));
    const Bytes& all = now.at("large").values;
    for (std::size_t row = 0; row < 12; ++row) {
      const auto from = all.begin() + static_cast<long>(2 * ((495 + row) * 700 + 20));
      EXPECT_TRUE(std::equal(from, from + 60, slice.begin() + static_cast<long>(60 * row)));
    }
  }
}

TEST(Base, OtherValuesAreRefusedByName) {
  const Tensors old = old_tensors();
  const Bytes file = file_of(new_tensors(old), base_of(old));
  Tensors changed = old;
  changed["middle"].values[77] ^= std::byte{4};
  const Reader reader = open_against(file, base_of(changed));
  const Result<OwnedTensor> refused = reader.read("middle");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kMissingBase);
  EXPECT_EQ(refused.error().record, "middle");
  EXPECT_EQ(take(reader.read("large")).bytes().size(), changed["large"].values.size());
  EXPECT_EQ(reader.check_base().error().record, "middle");
  const VerifyReport report = take(reader.verify(VerifyLevel::kDeep));
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_EQ(report.problems[0].code, ErrorCode::kMissingBase);
  EXPECT_EQ(report.problems[0].record, "middle");
}

TEST(Base, MissingOnesLeaveTheRestReadable) {
  const TemporaryFolder folder;
  const Tensors old = old_tensors();
  save(folder.path("old.cfck"), old);
  save(folder.path("new.cfck"), new_tensors(old), folder.path("old.cfck"));
  fs::create_directory(folder.path("elsewhere"));
  fs::rename(folder.path("old.cfck"), folder.path("elsewhere/old.cfck"));
  const Reader reader = take(Reader::open(folder.path("new.cfck")));
  const Result<OwnedTensor> refused = reader.read("large");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kMissingBase);
  EXPECT_NE(refused.error().message.find("'old.cfck'"), std::string::npos);
  EXPECT_NE(refused.error().message.find("base_dirs"), std::string::npos);
  expect_ok(reader.read("steps").has_value() ? Result<void>() : missing_base("steps"));
  const VerifyReport hashes = take(reader.verify(VerifyLevel::kHashes));
  EXPECT_TRUE(hashes.problems.empty());
  const VerifyReport deep = take(reader.verify(VerifyLevel::kDeep));
  ASSERT_EQ(deep.problems.size(), 1U);
  EXPECT_EQ(deep.problems[0].code, ErrorCode::kMissingBase);

  EXPECT_EQ(code_of(folder.path("new.cfck"), {.base_dirs = {folder.path("elsewhere")}}),
            ErrorCode{});
  EXPECT_EQ(code_of(folder.path("new.cfck"), {.base = base_of(old)}), ErrorCode{});
}

TEST(Base, WrongFilesOfTheNameArePassedOver) {
  const TemporaryFolder folder;
  const Tensors old = old_tensors();
  fs::create_directory(folder.path("elsewhere"));
  save(folder.path("elsewhere/old.cfck"), old);
  save(folder.path("new.cfck"), new_tensors(old), folder.path("elsewhere/old.cfck"));
  save(folder.path("old.cfck"), new_tensors(old, 55));
  EXPECT_EQ(code_of(folder.path("new.cfck")), ErrorCode::kMissingBase);
  EXPECT_EQ(code_of(folder.path("new.cfck"), {.base_dirs = {folder.path("elsewhere")}}),
            ErrorCode{});
  put_bytes(folder.path("old.cfck"), noise(3, 500));
  EXPECT_NE(code_of(folder.path("new.cfck")), ErrorCode{});
  EXPECT_EQ(code_of(folder.path("new.cfck"), {.base_dirs = {folder.path("elsewhere")}}),
            ErrorCode{});
}

TEST(Base, DamageOfABaseIsThatOfTheBase) {
  const TemporaryFolder folder;
  const Tensors old = old_tensors();
  save(folder.path("old.cfck"), old);
  save(folder.path("new.cfck"), new_tensors(old), folder.path("old.cfck"));
  Bytes damaged = bytes_of(folder.path("old.cfck"));
  damaged[damaged.size() / 2] ^= std::byte{1};
  put_bytes(folder.path("old.cfck"), damaged);
  const auto expect_named = [](const Reader& reader) {
    const VerifyReport report = take(reader.verify(VerifyLevel::kDeep));
    ASSERT_EQ(report.problems.size(), 1U);
    const Error& problem = report.problems[0];
    EXPECT_EQ(problem.code, ErrorCode::kChecksum);
    EXPECT_EQ(problem.message.find("the base 'old.cfck': "), 0U) << problem.message;
    const Result<OwnedTensor> read = reader.read(problem.record);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().message, problem.message);
  };
  expect_named(take(Reader::open(folder.path("new.cfck"))));
  auto archive = take(TensorArchive::open(folder.path("old.cfck")));
  expect_named(open_against(bytes_of(folder.path("new.cfck")),
                            take(base_of_archive(std::move(archive), "old.cfck"))));
}

TEST(Base, ChainsAreFollowedToTheirLimit) {
  const TemporaryFolder folder;
  Tensors tensors = old_tensors();
  std::string last;
  for (int i = 0; i < 10; ++i) {
    const std::string path = folder.path("step" + std::to_string(i) + ".cfck");
    save(path, tensors, last);
    if (i == 8) {
      EXPECT_EQ(all_tensors(take(Reader::open(path))), values_of(tensors));
    }
    last = i == 8 ? std::string() : path;
    if (i == 8) {
      const Tensors next = new_tensors(tensors, 300);
      EncodeOptions options;
      DecodeOptions deep;
      deep.limits.max_bases = 20;
      options.base = take(open_base(path, deep));
      put_bytes(folder.path("step9.cfck"),
                write_file([&](Writer& writer) { add_to(writer, next); }, options));
      EXPECT_EQ(code_of(folder.path("step9.cfck")), ErrorCode::kLimitExceeded);
      const Reader reader = take(Reader::open(folder.path("step9.cfck"), deep));
      EXPECT_EQ(all_tensors(reader), values_of(next));
      break;
    }
    tensors = new_tensors(tensors, 100 + static_cast<std::uint64_t>(i));
  }
  fs::remove(folder.path("step4.cfck"));
  const Result<OwnedTensor> broken = take(Reader::open(folder.path("step8.cfck"))).read("large");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, ErrorCode::kMissingBase);
  EXPECT_NE(broken.error().message.find("step4.cfck"), std::string::npos);
}

TEST(Base, CirclesAndLinksElsewhereAreRefused) {
  const TemporaryFolder folder;
  const Tensors old = old_tensors();
  fs::create_directory(folder.path("elsewhere"));
  save(folder.path("a.cfck"), old);
  save(folder.path("b.cfck"), new_tensors(old), folder.path("a.cfck"));
  // A file in the place of its own base, and two of each other's.
  fs::copy_file(folder.path("b.cfck"), folder.path("elsewhere/a.cfck"));
  EXPECT_EQ(code_of(folder.path("elsewhere/a.cfck")), ErrorCode::kMissingBase);
  const Reader self = take(Reader::open(folder.path("elsewhere/a.cfck")));
  EXPECT_NE(self.read("large").error().message.find("itself"), std::string::npos);
  save(folder.path("elsewhere/c.cfck"), new_tensors(old, 9), folder.path("b.cfck"));
  fs::rename(folder.path("elsewhere/c.cfck"), folder.path("elsewhere/b.cfck"));

  fs::rename(folder.path("a.cfck"), folder.path("elsewhere/real.cfck"));
  fs::create_symlink(folder.path("elsewhere/real.cfck"), folder.path("a.cfck"));
  EXPECT_EQ(code_of(folder.path("b.cfck")), ErrorCode::kMissingBase);
  fs::rename(folder.path("elsewhere/real.cfck"), folder.path("real.cfck"));
  fs::remove(folder.path("a.cfck"));
  fs::create_symlink("real.cfck", folder.path("a.cfck"));
  EXPECT_EQ(code_of(folder.path("b.cfck")), ErrorCode{}) << "a link within the folder";
}

TEST(Base, CompactedFilesStandAlone) {
  const TemporaryFolder folder;
  const Tensors old = old_tensors();
  const Tensors now = new_tensors(old);
  save(folder.path("old.cfck"), old);
  save(folder.path("new.cfck"), now, folder.path("old.cfck"));
  take(compact(folder.path("new.cfck")));
  fs::remove(folder.path("old.cfck"));
  const Reader reader = take(Reader::open(folder.path("new.cfck")));
  EXPECT_FALSE(reader.needs_base());
  EXPECT_EQ(all_tensors(reader), values_of(now));
  EXPECT_EQ(bytes_of(folder.path("new.cfck")), file_of(now));
  // Without its base it is left as it was.
  save(folder.path("old.cfck"), old);
  save(folder.path("new.cfck"), now, folder.path("old.cfck"));
  fs::remove(folder.path("old.cfck"));
  const Bytes before = bytes_of(folder.path("new.cfck"));
  EXPECT_EQ(compact(folder.path("new.cfck")).error().code, ErrorCode::kMissingBase);
  EXPECT_EQ(bytes_of(folder.path("new.cfck")), before);
}

TEST(Base, UpdatesKeepWhatIsStoredAgainstIt) {
  const TemporaryFolder folder;
  const Tensors old = old_tensors();
  Tensors now = new_tensors(old);
  save(folder.path("old.cfck"), old);
  save(folder.path("new.cfck"), now, folder.path("old.cfck"));
  Update changes;
  const Bytes values = weights(9, 40);
  changes.tensors = {{"large", DType::kF32, {40}, {1}, values.data()}};
  take(update(folder.path("new.cfck"), changes));
  now["large"] = {DType::kF32, {40}, values};
  const Reader reader = take(Reader::open(folder.path("new.cfck")));
  EXPECT_TRUE(reader.needs_base());
  EXPECT_EQ(all_tensors(reader), values_of(now));
  EncodeOptions options;
  options.base = base_of(old);
  EXPECT_EQ(update(folder.path("new.cfck"), changes, options).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(Base, SharedBytesOfAReplacedTensorAreRefused) {
  const TemporaryFolder folder;
  const Tensors old = old_tensors();
  const Tensors now = new_tensors(old);
  save(folder.path("old.cfck"), old);
  EncodeOptions options;
  options.base = take(open_base(folder.path("old.cfck")));
  put_bytes(folder.path("new.cfck"),
            write_file(
                [&](Writer& writer) {
                  add_to(writer, now);
                  const Tensor& twin = now.at("large");
                  expect_ok(writer.add("twin", TensorView{twin.dtype, twin.shape, twin.values}));
                },
                options));
  const Reader reader = take(Reader::open(folder.path("new.cfck")));
  ASSERT_EQ(reader.find("twin")->kind, RecordKind::kDuplicate);
  EXPECT_EQ(take(reader.read("twin")).bytes().size(), now.at("large").values.size());
  Update changes;
  changes.remove = {"large"};
  const Bytes before = bytes_of(folder.path("new.cfck"));
  const auto refused = update(folder.path("new.cfck"), changes);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(bytes_of(folder.path("new.cfck")), before);
  take(compact(folder.path("new.cfck")));
  take(update(folder.path("new.cfck"), changes));
  EXPECT_EQ(take(take(Reader::open(folder.path("new.cfck"))).read("twin")).bytes().size(),
            now.at("large").values.size());
}

TEST(Base, RepairKeepsWhatIsStoredAgainstIt) {
  const TemporaryFolder folder;
  const Tensors old = old_tensors();
  Tensors now = new_tensors(old);
  save(folder.path("old.cfck"), old);
  save(folder.path("new.cfck"), now, folder.path("old.cfck"));
  Bytes damaged = bytes_of(folder.path("new.cfck"));
  const Reader reader = take(Reader::open(folder.path("new.cfck")));
  const auto& stored = ReaderAccess::index(reader).records[reader.find("large")->index];
  damaged[stored.offset_bytes + 40] ^= std::byte{1};
  put_bytes(folder.path("damaged.cfck"), damaged);
  const RepairReport report =
      take(repair(folder.path("damaged.cfck"), folder.path("repaired.cfck")));
  EXPECT_EQ(report.lost, std::vector<std::string>{"large"});
  now.erase("large");
  EXPECT_EQ(all_tensors(take(Reader::open(folder.path("repaired.cfck")))), values_of(now));
}

}  // namespace
}  // namespace cfck::test
