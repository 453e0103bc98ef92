// Readers used by several threads, and by a forked child.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

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
