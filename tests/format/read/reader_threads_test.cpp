// Readers used by several threads, and by a forked child.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/support/sample_tensors.hpp"

namespace cfck::test {
namespace {

TEST(ReaderThreads, ThreadsDoNotChangeAnything) {
  const Bytes bytes = weights(6, 700000);
  const Bytes file_bytes = write_file([&](Writer& writer) {
    expect_ok(writer.add("a", TensorView{DType::kF32, {700, 1000}, bytes}));
  });
  const MemorySource source(file_bytes);
  for (const unsigned threads : {1u, 2u, 7u}) {
    DecodeOptions options;
    options.threads = threads;
    const Reader reader = take(Reader::open(source, options));
    Bytes out(bytes.size());
    expect_ok(reader.read(*reader.find("a"), out));
    EXPECT_EQ(out, bytes);
  }
}

// Chunks of one huge page are taken together, wherever the memory begins, and all are reported.
TEST(ReaderThreads, LargeReadsOfSmallChunks) {
  constexpr std::uint64_t kValues = 3'000'000;
  const Bytes bytes = weights(7, kValues);
  EncodeOptions small_chunks;
  small_chunks.chunk_elems = 8192;
  Bytes file_bytes = write_file(
      [&](Writer& writer) {
        expect_ok(writer.add("a", TensorView{DType::kF32, {kValues}, bytes}));
      },
      small_chunks);
  const MemorySource source(file_bytes);
  for (const unsigned threads : {1u, 2u, 3u}) {
    DecodeOptions options;
    options.threads = threads;
    const Reader reader = take(Reader::open(source, options));
    for (const std::size_t offset_bytes : {0, 64, 1 << 20}) {
      Bytes memory(bytes.size() + (1 << 20));
      const MutableBytes out = MutableBytes(memory).subspan(offset_bytes, bytes.size());
      const ReadRequest request{reader.find("a"), out};
      std::uint64_t done_bytes = 0;
      expect_ok(reader.read_many({&request, 1}, [&](std::uint64_t n_bytes, std::string_view) {
        done_bytes = std::max(done_bytes, n_bytes);
        return true;
      }));
      EXPECT_EQ(done_bytes, bytes.size());
      EXPECT_TRUE(std::ranges::equal(out, bytes));
    }
    Bytes part(4 * 2'000'001);
    expect_ok(reader.read_elements(*reader.find("a"), 500'000, 2'000'001, part));
    EXPECT_TRUE(std::ranges::equal(part, ByteView(bytes).subspan(2'000'000, part.size())));
  }
  file_bytes[file_bytes.size() / 2] ^= std::byte{1};
  const Reader reader = take(Reader::open(source, {.threads = 3}));
  Bytes out(bytes.size());
  const auto damaged = reader.read(*reader.find("a"), out);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code, ErrorCode::kChecksum);
}

TEST(ReaderThreads, SeveralThreadsMayReadAtOnce) {
  std::vector<Bytes> tensors;
  const OpenFile file(write_file([&](Writer& writer) {
    for (int i = 0; i < 60; ++i) {
      tensors.push_back(weights(static_cast<std::uint64_t>(i), 3000));
    }
    for (int i = 0; i < 60; ++i) {
      expect_ok(writer.add(std::to_string(i), TensorView{DType::kF32, {3000}, tensors[i]}));
    }
  }));
  std::atomic<int> n_wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Bytes out(12000);
      for (int i = t; i < 240; ++i) {
        const Record* record = file->find(std::to_string(i * 7 % 60));
        if (record == nullptr || !file->read(*record, out) || out != tensors[i * 7 % 60]) {
          ++n_wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(n_wrong, 0);
}

// As programs that stream a model do: the next weight is read ahead, rows of an embedding are read
// by number, and somebody verifies. Small tensors share a pack.
TEST(ReaderThreads, ThreadsThatStreamVerifyAndReadManyDoNotDisturbEachOther) {
  const Bytes table = weights(1, 40000);
  const Bytes small = weights(2, 100);
  EncodeOptions encode;
  encode.chunk_elems = 4096;
  const OpenFile file(write_file(
      [&](Writer& writer) {
        expect_ok(writer.add("table", TensorView{DType::kF32, {200, 200}, table}));
        expect_ok(writer.add("small", TensorView{DType::kF32, {100}, small}));
        expect_ok(writer.attach("notes", small));
      },
      encode));
  std::atomic<int> n_wrong{0};
  const auto expect = [&](bool right) { n_wrong += right ? 0 : 1; };
  const auto stream = [&](std::uint64_t begin) {
    Bytes row(800);
    for (std::uint64_t i = begin; i < begin + 40; ++i) {
      const std::uint64_t starts[] = {i * 37 % 200, 0};
      const std::uint64_t stops[] = {starts[0] + 1, 200};
      expect(file->read_slice(file.record("table"), starts, stops, row) &&
             std::ranges::equal(row, std::span(table).subspan(starts[0] * 800, 800)));
      expect(file->attachment("notes").has_value());
    }
  };
  const auto read_many = [&] {
    Bytes big(table.size());
    Bytes little(small.size());
    for (int i = 0; i < 10; ++i) {
      const ReadRequest requests[] = {{&file.record("table"), big},
                                      {&file.record("small"), little}};
      expect(file->read_many(requests) && big == table && little == small);
    }
  };
  const auto verify = [&] {
    for (int i = 0; i < 5; ++i) {
      const auto report = file->verify(VerifyLevel::kDeep);
      expect(report && report->problems.empty());
    }
  };
  std::vector<std::thread> threads;
  threads.emplace_back(stream, 0);
  threads.emplace_back(stream, 100);
  threads.emplace_back(read_many);
  threads.emplace_back(verify);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_wrong, 0);
}

TEST(ReaderThreads, ForkedChildrenCanRead) {
  const Bytes bytes = weights(6, 700000);
  const OpenFile file(write_file([&](Writer& writer) {
    expect_ok(writer.add("a", TensorView{DType::kF32, {700000}, bytes}));
  }));
  EXPECT_EQ(file.tensor("a"), bytes);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Bytes out(bytes.size());
    const bool right = file->read(file.record("a"), out) && out == bytes;
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace cfck::test
