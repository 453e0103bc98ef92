// Memory runs out at every allocation in turn, while patches are applied, and while files that are
// stored against others are opened, written and rewritten.
#include <algorithm>

#include "base/run_guarded.hpp"
#include "cfck/patch.hpp"
#include "cfck/update.hpp"
#include "tests/format/bases/stepped.hpp"
#include "tests/support/sample_tensors.hpp"
#include "tests/support/shortages.hpp"

namespace cfck::test {
namespace {

// Small, so that there are many allocations for each byte. Chunks of integers have several of the
// tiles in which changes are noted.
Tensors small_tensors() {
  Tensors tensors;
  tensors["in chunks"] = {DType::kBF16, {64, 64}, weights(1, 2048)};
  tensors["in one chunk"] = {DType::kBF16, {40, 40}, weights(2, 800)};
  tensors["of numbers"] = {DType::kI64, {9}, weights(3, 18)};
  tensors["alone"] = {DType::kBF16, {96, 96}, weights(4, 4608)};
  tensors["partly stored"] = {DType::kI64, {9000}, weights(5, 18000)};
  tensors["of nibbles"] = {DType::kI32, {5000}, weights(6, 5000)};
  tensors["tied"] = tensors["in chunks"];
  return tensors;
}

Tensors changed(const Tensors& old) {
  Tensors now = old;
  for (auto& [name, tensor] : now) {
    tensor.values = stepped(tensor.values, name == "tied" ? 9 : name.size(), 10);
  }
  now["in chunks"] = now["tied"];
  // Other values at the end, which are stored as they are, and none before.
  Bytes& stored = now["partly stored"].values;
  stored = old.at("partly stored").values;
  const Bytes others = weights(7, 4000);
  std::copy(others.begin(), others.end(), stored.end() - static_cast<long>(others.size()));
  Bytes& nibbles = now["of nibbles"].values;
  nibbles = old.at("of nibbles").values;
  for (std::size_t i = 0; i < nibbles.size(); i += 37) {
    nibbles[i] ^= static_cast<std::byte>(i % 2 == 0 ? 1 : 16);
  }
  return now;
}

EncodeOptions against(std::shared_ptr<const Base> base) {
  EncodeOptions options;
  options.base = std::move(base);
  options.chunk_elems = 2048;
  options.threads = 1;
  return options;
}

Bytes small_patch(const Tensors& old, const Tensors& now) {
  return write_file([&](Writer& writer) { add_to(writer, now); }, against(base_of(old)));
}

void expect_applies(unsigned threads, std::uint64_t n_first) {
  const Tensors old = small_tensors();
  const Tensors now = changed(old);
  const Bytes patch = small_patch(old, now);
  Tensors tensors;
  std::vector<PatchedTensor> targets;
  Operation operation;
  operation.prepare = [&] {
    tensors = old;
    targets.clear();
    for (auto& [name, tensor] : tensors) {
      targets.push_back({name, tensor.dtype, tensor.shape, tensor.values});
    }
  };
  operation.run = [&]() -> Result<void> {
    DecodeOptions options;
    options.threads = threads;
    CFCK_TRY(apply_patch(MemorySource(patch), targets, std::move(options)));
    return {};
  };
  operation.check = [&](bool succeeded) {
    EXPECT_EQ(values_of(tensors), values_of(succeeded ? now : old));
  };
  expect_survives(operation, n_first);
}

TEST(Shortage, ChangesAllTensorsOrNone) { expect_applies(1, 3000); }

TEST(Shortage, ChangesAllTensorsOrNoneWithThreads) { expect_applies(3, 3000); }

TEST(Shortage, WhileAFileIsWrittenAgainstABase) {
  const Tensors old = small_tensors();
  const Tensors now = changed(old);
  const Bytes expected = small_patch(old, now);
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : old) {
    named.push_back({name, {tensor.dtype, tensor.shape, tensor.values}});
  }
  Bytes written;
  Operation operation;
  operation.run = [&]() -> Result<void> {
    return run_guarded([&]() -> Result<void> {
      CFCK_TRY_ASSIGN(std::shared_ptr<const Base> base, base_in_memory(named));
      MemorySink sink;
      CFCK_TRY_ASSIGN(Writer writer, Writer::create(sink, against(std::move(base))));
      for (const auto& [name, tensor] : now) {
        CFCK_TRY(writer.add(name, TensorView{tensor.dtype, tensor.shape, tensor.values}));
      }
      CFCK_TRY(writer.finish());
      written = sink.take();
      return {};
    });
  };
  operation.check = [&](bool succeeded) {
    if (succeeded) {
      EXPECT_EQ(written, expected);
    }
  };
  expect_survives(operation, 200);
}

// A chain of three files: "c" is stored against "b", and that against "a".
struct Chain {
  TemporaryFolder folder;
  Tensors first = small_tensors();
  Tensors second = changed(first);
  Tensors third = changed(second);
  Bytes last;

  Chain() {
    put_bytes(folder.path("a"), small_patch({}, first));
    save("b", second, "a");
    save("c", third, "b");
    last = bytes_of(folder.path("c"));
  }
  void save(const char* name, const Tensors& tensors, const char* base) const {
    put_bytes(folder.path(name), write_file([&](Writer& writer) { add_to(writer, tensors); },
                                            against(take(open_base(folder.path(base))))));
  }
};

TEST(Shortage, WhileAChainIsReadAndVerified) {
  const Chain chain;
  std::map<std::string, Bytes> found;
  Operation operation;
  operation.run = [&] {
    return run_guarded([&]() -> Result<void> {
      DecodeOptions options;
      options.threads = 1;
      CFCK_TRY_ASSIGN(const Reader reader, Reader::open(chain.folder.path("c"), options));
      CFCK_TRY(reader.check_base());
      found.clear();
      for (const Record& record : reader.records()) {
        CFCK_TRY_ASSIGN(OwnedTensor tensor, reader.read(record.name));
        found[record.name] = Bytes(tensor.bytes().begin(), tensor.bytes().end());
      }
      return {};
    });
  };
  operation.check = [&](bool succeeded) {
    if (succeeded) {
      EXPECT_EQ(found, values_of(chain.third));
    }
  };
  expect_survives(operation, 300);
}

TEST(Shortage, WhileAFileIsMadeToStandAlone) {
  const Chain chain;
  const std::string path = chain.folder.path("c");
  Operation operation;
  operation.prepare = [&] { put_bytes(path, chain.last); };
  operation.run = [&]() -> Result<void> {
    DecodeOptions options;
    options.threads = 1;
    CFCK_TRY(compact(path, options));
    return {};
  };
  operation.check = [&](bool succeeded) {
    EXPECT_EQ(chain.folder.names(), (std::vector<std::string>{"a", "b", "c"}));
    EXPECT_EQ(bytes_of(path) == chain.last, !succeeded);
    const Reader reader = take(Reader::open(path));
    EXPECT_EQ(reader.needs_base(), !succeeded);
    EXPECT_EQ(all_tensors(reader), values_of(chain.third));
  };
  expect_survives(operation, 60);
}

}  // namespace
}  // namespace cfck::test
