// Files of torch.save as archives; those that no torch writes.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "cfck/archive_writer.hpp"
#include "cfck/checkpoint.hpp"
#include "tests/interop/pytorch/pytorch_files.hpp"

namespace cfck::test {
namespace {

std::vector<float> floats_of(const OwnedTensor& tensor) {
  std::vector<float> values(tensor.bytes().size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes().data(), tensor.bytes().size());
  return values;
}

std::vector<float> read(const TensorArchive& archive, const char* name) {
  const auto tensor = archive.read(name);
  EXPECT_TRUE(tensor) << tensor.error().to_string();
  return tensor ? floats_of(*tensor) : std::vector<float>();
}

TEST(Pytorch, ReadsATensor) {
  const auto archive = open_bytes(pytorch_file(dict_of(tensor(storage("0", 12), 2, 2, 3, 3, 1))));
  ASSERT_TRUE(archive) << archive.error().to_string();
  ASSERT_EQ((*archive)->tensors().size(), 1U);
  EXPECT_EQ((*archive)->files()[0].format, "pytorch");
  EXPECT_EQ(read(**archive, "w"), (std::vector<float>{2, 3, 4, 5, 6, 7}));
  const ArchiveTensor& w = (*archive)->tensors()[0];
  std::vector<float> some(2);
  const std::uint64_t starts[] = {0, 1};
  const std::uint64_t stops[] = {2, 2};
  ASSERT_TRUE((*archive)->read_slice(w, starts, stops, std::as_writable_bytes(std::span(some))));
  EXPECT_EQ(some, (std::vector<float>{3, 6}));
  const auto skeleton = (*archive)->attachment(kCheckpointAttachment);
  ASSERT_TRUE(skeleton);
  EXPECT_TRUE(
      parse_checkpoint({reinterpret_cast<const char*>(skeleton->data()), skeleton->size()}));
}

TEST(Pytorch, ViewsHaveABase) {
  const std::string pickle = "\x80\x02}" + text("t") + tensor(storage("0", 12), 0, 4, 3, 1, 4) +
                             "s" + text("w") + tensor(storage("0", 12), 0, 3, 4, 4, 1) + "s" +
                             text("c") + tensor(storage("0", 12), 1, 3, 1, 4, 1) + "s.";
  const auto archive = open_bytes(pytorch_file(pickle));
  ASSERT_TRUE(archive) << archive.error().to_string();
  const auto tensors = (*archive)->tensors();
  EXPECT_EQ(tensors[0].sharing, Sharing::kMemory);
  EXPECT_EQ(tensors[0].base, 1U);
  EXPECT_EQ(tensors[1].sharing, Sharing::kNone);
  EXPECT_EQ(tensors[2].element_offset, 1U);
  EXPECT_EQ(read(**archive, "t"), (std::vector<float>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  EXPECT_EQ(read(**archive, "c"), (std::vector<float>{1, 5, 9}));
  std::vector<float> some(3);
  ASSERT_TRUE((*archive)->read_elements(tensors[0], 4, 3, std::as_writable_bytes(std::span(some))));
  EXPECT_EQ(some, (std::vector<float>{5, 9, 2}));
}

struct Bad {
  std::string what;
  std::string file;
  ErrorCode code = ErrorCode::kCorrupt;
  std::string words;  // of the message
};

void expect_refused(const std::vector<Bad>& cases) {
  for (const Bad& bad : cases) {
    SCOPED_TRACE(bad.what);
    const auto archive = open_bytes(bad.file);
    ASSERT_FALSE(archive);
    EXPECT_EQ(archive.error().code, bad.code) << archive.error().to_string();
    EXPECT_NE(archive.error().message.find(bad.words), std::string::npos)
        << archive.error().message;
  }
}

TEST(Pytorch, NamesTheCodeThatItDoesNotCall) {
  const auto call = [](const std::string& module, const std::string& name) {
    return pytorch_file(dict_of(global(module, name) + tuple(text("true")) + "R"));
  };
  expect_refused({
      {"a shell", call("os", "system"), ErrorCode::kUnsupported, "os.system"},
      {"posix", call("posix", "system"), ErrorCode::kUnsupported, "posix.system"},
      {"eval", call("builtins", "eval"), ErrorCode::kUnsupported, "builtins.eval"},
      {"a new object",
       pytorch_file(dict_of(global("subprocess", "Popen") + tuple(text("true")) + "\x81")),
       ErrorCode::kUnsupported, "subprocess.Popen"},
      {"by the stack",
       pytorch_file("\x80\x04}" + text("w") + text("os") + text("system") + "\x93" +
                    tuple(text("true")) + "Rs."),
       ErrorCode::kUnsupported, "os.system"},
      {"escapes", call("os\x1b[31m", "system"), ErrorCode::kUnsupported, "\\x1b"},
      {"a storage from bytes", call("torch.storage", "_load_from_bytes"), ErrorCode::kUnsupported,
       "_load_from_bytes"},
      {"attributes",
       pytorch_file(dict_of(global("collections", "OrderedDict") + ")R}" + text("x") + "NsB")),
       ErrorCode::kTruncated, ""},
      {"other attributes",
       pytorch_file(dict_of(global("collections", "OrderedDict") + ")R}" + text("x") + "Nsb")),
       ErrorCode::kUnsupported, "attributes"},
      {"an extension", pytorch_file(std::string("\x80\x02\x82\x01", 4)), ErrorCode::kUnsupported,
       "opcode 0x82"},
  });
}

TEST(Pytorch, RefusesTensorsThatLeaveTheirStorage) {
  const auto file = [](const std::string& value) { return pytorch_file(dict_of(value)); };
  expect_refused({
      {"too many rows", file(tensor(storage("0", 12), 0, 5, 3, 3, 1)), ErrorCode::kCorrupt, "'0'"},
      {"an offset", file(tensor(storage("0", 12), 7, 2, 3, 3, 1)), ErrorCode::kCorrupt, "beyond"},
      {"a negative offset", file(tensor(storage("0", 12), -1, 2, 3, 3, 1)), ErrorCode::kCorrupt,
       ""},
      {"a negative stride", file(tensor(storage("0", 12), 6, 2, 3, -3, 1)), ErrorCode::kCorrupt,
       ""},
      {"a negative size", file(tensor(storage("0", 12), 0, -2, 3, 3, 1)), ErrorCode::kCorrupt, ""},
      {"strides that wrap",
       file(global("torch._utils", "_rebuild_tensor_v2") +
            tuple(storage("0", 12) + integer(0) + tuple(integer(5) + integer(1)) +
                  tuple(std::string("\x8a\x08") + little(std::int64_t{1} << 62) + integer(1)) +
                  "\x89N") +
            "R"),
       ErrorCode::kCorrupt, "beyond"},
      {"a storage that claims more", file(tensor(storage("0", 13), 0, 13, 1, 1, 1)),
       ErrorCode::kTruncated, "48 bytes"},
      {"no such storage", file(tensor(storage("7", 12), 0, 2, 3, 3, 1)), ErrorCode::kCorrupt,
       "'7'"},
      {"unknown elements", file(tensor(storage("0", 12, "QInt8Storage"), 0, 2, 3, 3, 1)),
       ErrorCode::kUnsupported, "QInt8Storage"},
      {"no storage", file(tensor("N", 0, 2, 3, 3, 1)), ErrorCode::kCorrupt, ""},
  });
}

TEST(Pytorch, RefusesPicklesThatGrow) {
  // A tuple of two of the last one, 40 times: 2^40 elements for who unfolds it as a key.
  std::string laughs = "\x80\x02})q" + std::string(1, '\0') + "0";
  for (int i = 0; i < 15; ++i) {
    const std::string get = {'h', static_cast<char>(i)};
    std::string many;
    for (int j = 0; j < 20; ++j) many += get;
    laughs += "(" + many + "tq" + std::string(1, static_cast<char>(i + 1)) + "0";
  }
  // A set of the same long list, again and again.
  std::string copies = "\x80\x02](";
  for (int i = 0; i < 2000; ++i) copies += "K" + std::string(1, static_cast<char>(i));
  copies += std::string("eq\0", 3) + "0](";
  for (int i = 0; i < 2000; ++i) {
    copies += global("builtins", "set") + std::string("h\0\x85R", 4);
  }
  std::string deep = "\x80\x02";
  for (int i = 0; i < 2000; ++i) deep += "]";
  for (int i = 0; i < 1999; ++i) deep += "a";
  expect_refused({
      {"laughs", pytorch_file(laughs + "h\x0fNs."), ErrorCode::kLimitExceeded, "repeats"},
      {"copies", pytorch_file(copies + "e."), ErrorCode::kLimitExceeded, "repeats"},
      {"deep", pytorch_file(deep + "."), ErrorCode::kUnsupported, "1000"},
      {"a marks without end", pytorch_file("\x80\x02" + std::string(5000, '(')),
       ErrorCode::kTruncated, ""},
      {"nothing", pytorch_file(""), ErrorCode::kTruncated, ""},
      {"an empty stack", pytorch_file("\x80\x02."), ErrorCode::kCorrupt, ""},
      {"a later protocol", pytorch_file("\x80\x06N."), ErrorCode::kUnsupported, "protocol 6"},
      {"more behind", pytorch_file("\x80\x02N.N"), ErrorCode::kCorrupt, "behind"},
      {"a string that is none", pytorch_file(dict_of("X" + little(1) + "\xFF")),
       ErrorCode::kCorrupt, "UTF-8"},
      {"a length without end", pytorch_file("\x80\x02X\xFF\xFF\xFF\xFF."), ErrorCode::kTruncated,
       ""},
  });
}

// A few bytes of a pickle are hundreds in memory.
TEST(Pytorch, RefusesMoreValuesThanFitIntoMemory) {
  constexpr std::size_t kMany = (std::size_t{1} << 22) + 1;
  const auto repeated = [](const std::string& opcodes, std::size_t n) {
    std::string all;
    for (std::size_t i = 0; i < n; ++i) all += opcodes;
    return all;
  };
  const std::string long_text =
      "\x80\x02" + text(std::string(1 << 20, 'x')) + std::string("q\0", 2);
  const std::string batch = "(" + repeated("N", 1000) + "e";
  expect_refused({
      {"empty lists", pytorch_file("\x80\x02](" + std::string(kMany, ']') + "e."),
       ErrorCode::kLimitExceeded, "values"},
      {"nothing", pytorch_file("\x80\x02](" + std::string(kMany, 'N') + "e."),
       ErrorCode::kLimitExceeded, "values"},
      {"nothing in batches", pytorch_file("\x80\x02]" + repeated(batch, kMany / 1000 + 1) + "."),
       ErrorCode::kLimitExceeded, "values"},
      {"names of one value", pytorch_file("\x80\x02]" + std::string(kMany, '\x94') + "."),
       ErrorCode::kLimitExceeded, "values"},
      {"one long text",
       pytorch_file(long_text + "0](" + repeated(std::string("h\0", 2), 100) + "e."),
       ErrorCode::kLimitExceeded, "texts"},
      {"one long text as keys",
       pytorch_file(long_text + "0}(" + repeated(std::string("h\0N", 3), 100) + "u."),
       ErrorCode::kLimitExceeded, "texts"},
  });
}

TEST(Pytorch, RefusesOtherZipFiles) {
  const std::string pickle = dict_of(tensor(storage("0", 12), 0, 2, 3, 3, 1));
  const std::string floats(48, '\0');
  expect_refused({
      {"TorchScript", zip_file({{"m/data.pkl", pickle}, {"m/code/x.py", "x"}}),
       ErrorCode::kUnsupported, "torch.jit.load"},
      {"big-endian", zip_file({{"m/data.pkl", pickle}, {"m/byteorder", "big"}}),
       ErrorCode::kUnsupported, "byte order"},
      {"another method", zip_file({{"m/data.pkl", pickle}, {"m/data/0", floats, 14}}),
       ErrorCode::kUnsupported, "method 14"},
      {"encrypted", zip_file({{"m/data.pkl", pickle}, {"m/data/0", floats, 0, 1}}),
       ErrorCode::kUnsupported, "encrypted"},
      {"two of a name", zip_file({{"m/data.pkl", pickle}, {"m/data.pkl", pickle}}),
       ErrorCode::kCorrupt, "two members"},
      {"names that leave", zip_file({{"m/data.pkl", pickle}, {"m/../../x", "x"}}),
       ErrorCode::kCorrupt, "leaves"},
      {"absolute names", zip_file({{"m/data.pkl", pickle}, {"/etc/x", "x"}}), ErrorCode::kCorrupt,
       "leaves"},
      {"a member that is too long",
       zip_file({{"m/data.pkl", pickle}, {"m/data/0", floats, 0, 0, 4096}}), ErrorCode::kCorrupt,
       "reaches"},
  });
}

TEST(Pytorch, MembersThatAreNoDeflateDataAreDamaged) {
  const std::string pickle = dict_of(tensor(storage("0", 12), 0, 2, 3, 3, 1));
  const std::string floats(48, '\0');
  const auto archive = open_bytes(zip_file({{"m/data.pkl", pickle}, {"m/data/0", floats, 8}}));
  ASSERT_TRUE(archive) << archive.error().to_string();
  const auto values = (*archive)->read((*archive)->tensors()[0]);
  ASSERT_FALSE(values);
  EXPECT_EQ(values.error().code, ErrorCode::kCorrupt);
  EXPECT_FALSE(open_bytes(zip_file({{"m/data.pkl", pickle, 8}, {"m/data/0", floats}})));
}

TEST(Pytorch, EveryPrefixIsRefused) {
  const std::string whole = pytorch_file(dict_of(tensor(storage("0", 12), 0, 2, 3, 3, 1)));
  ASSERT_TRUE(open_bytes(whole));
  for (std::size_t n_bytes = 0; n_bytes < whole.size(); ++n_bytes) {
    EXPECT_FALSE(open_bytes(whole.substr(0, n_bytes))) << n_bytes;
  }
}

TEST(Pytorch, FlippedBitsAreErrorsOrOtherValues) {
  const std::string whole = pytorch_file(dict_of(tensor(storage("0", 12), 0, 2, 3, 3, 1)));
  for (std::size_t i = 0; i < whole.size() * 8; ++i) {
    std::string damaged = whole;
    damaged[i / 8] = static_cast<char>(damaged[i / 8] ^ 1 << i % 8);
    const auto archive = open_bytes(damaged);
    if (!archive) continue;
    for (const ArchiveTensor& tensor : (*archive)->tensors()) {
      if (tensor.n_bytes >= 1000) continue;
      // A member that claims to be compressed is found out when it is read.
      const auto values = (*archive)->read(tensor);
      EXPECT_TRUE(values || values.error().code == ErrorCode::kCorrupt) << i;
    }
  }
}

TEST(Pytorch, FormatsThatAreOnlyReadAreNotWritten) {
  MemorySink sink;
  const auto writer = ArchiveWriter::create("pytorch", sink);
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, ErrorCode::kUnsupported);
  EXPECT_FALSE(ArchiveWriter::create_folder("pytorch", "nowhere"));
}

}  // namespace
}  // namespace cfck::test
