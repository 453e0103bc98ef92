#include "codec/entropy/zstd/frame.hpp"

#include <algorithm>

#include "codec/entropy/zstd/huffman.hpp"

namespace cfck::codec {
namespace {

inline constexpr std::uint32_t kFrameMagic = 0xfd2fb528;
inline constexpr std::size_t kMaxBlock = std::size_t{1} << 17;

enum class BlockType : unsigned { kRaw = 0, kRle = 1, kCompressed = 2 };
enum class LiteralsType : unsigned { kRle = 1, kCompressed = 2, kTreeless = 3 };

void store_number(std::byte* to, std::uint64_t value, unsigned n_bytes) {
  for (unsigned i = 0; i < n_bytes; ++i) {
    to[i] = static_cast<std::byte>(value >> (8 * i));
  }
}

void append_varint(std::vector<std::byte>& out, std::uint64_t value, unsigned n_bytes) {
  out.resize(out.size() + n_bytes);
  store_number(out.data() + out.size() - n_bytes, value, n_bytes);
}

// Consecutive streams that share a tree.
struct Run {
  std::size_t n_symbols = 0;
  Histogram counts{};
  HuffmanCode code;  // only where coding is kHuffman
  TreeBytes tree;
  std::uint64_t estimated_bytes = 0;
  enum class Coding { kEmpty, kRaw, kOneSymbol, kHuffman } coding = Coding::kEmpty;
};

// Specification, section 5: the cost of a Huffman block of n symbols beside tree and codes.
std::uint64_t block_overhead(std::size_t n) {
  return n < 1024 ? 3 + 3 + 1 + 1 : n < 16384 ? 3 + 4 + 10 + 1 : 3 + 5 + 10 + 1;
}

// Chooses the coding of a run whose symbols have been counted. Trees are neither
// made nor described where they could not make the estimate as low as `limit`.
void plan_run(Run& run, std::uint64_t limit = ~std::uint64_t{0}) {
  const std::size_t n = run.n_symbols;
  if (n == 0) {
    return;
  }
  const std::uint64_t n_blocks = (n + kMaxBlock - 1) / kMaxBlock;
  run.coding = Run::Coding::kRaw;
  run.estimated_bytes = n + 3 * n_blocks;
  const auto n_used =
      std::count_if(run.counts.begin(), run.counts.end(), [](auto count) { return count != 0; });
  if (n_used == 1) {
    if (n > 3) {
      run.coding = Run::Coding::kOneSymbol;
      run.estimated_bytes = 4 * n_blocks;
    }
    return;
  }
  if (limit < run.estimated_bytes && (min_coded_bits(run.counts) + 7) / 8 > limit) {
    return;
  }
  run.code = build_huffman_code(run.counts);
  std::uint64_t bytes = (coded_bits(run.code, run.counts) + 7) / 8;
  if (bytes > limit) {
    return;
  }
  run.tree = describe_tree(run.code);
  if (run.tree.empty()) {
    return;
  }
  bytes += run.tree.size();
  bytes += (n_blocks - 1) * block_overhead(kMaxBlock);
  bytes += block_overhead(n - (n_blocks - 1) * kMaxBlock);
  if (bytes < run.estimated_bytes) {
    run.coding = Run::Coding::kHuffman;
    run.estimated_bytes = bytes;
  }
}

// Specification, section 5: from the first stream on, a stream joins the run before it unless that
// would cost bytes.
void plan_runs(std::span<const SymbolStream> streams, std::vector<Run>& runs) {
  runs.clear();
  for (const SymbolStream& stream : streams) {
    if (stream.empty()) {
      continue;
    }
    Run own;
    own.n_symbols = stream.size();
    count_symbols(stream, own.counts);
    plan_run(own);
    if (!runs.empty()) {
      Run joint;
      joint.n_symbols = runs.back().n_symbols + own.n_symbols;
      for (std::size_t s = 0; s < joint.counts.size(); ++s) {
        joint.counts[s] = runs.back().counts[s] + own.counts[s];
      }
      const std::uint64_t apart = runs.back().estimated_bytes + own.estimated_bytes;
      plan_run(joint, apart);
      if (joint.estimated_bytes <= apart) {
        runs.back() = joint;
        continue;
      }
    }
    runs.push_back(own);
  }
}

// Working memory of a frame that is written.
struct FrameMemory {
  std::vector<Run> runs;
  std::vector<std::uint8_t> joined;  // streams of a run, one after another
};

class FrameWriter {
 public:
  FrameWriter(std::size_t n_symbols, std::vector<std::byte>& out) : left_(n_symbols), out_(out) {
    append_varint(out_, kFrameMagic, 4);
    // The frame has one segment and its content size, but neither checksum nor dictionary.
    const unsigned size_code = n_symbols < 256 ? 0 : n_symbols < 65536 + 256 ? 1 : 2;
    append_varint(out_, 0x20 | size_code << 6, 1);
    append_varint(out_, size_code == 1 ? n_symbols - 256 : n_symbols, 1u << size_code);
  }

  void write(const Run& run, SymbolStream symbols) {
    CodeWords words;
    if (run.coding == Run::Coding::kHuffman) {
      assign_code_words(run.code, run.n_symbols, words);
    }
    bool has_tree = false;
    while (!symbols.empty()) {
      const SymbolStream block = symbols.first(std::min(symbols.size(), kMaxBlock));
      symbols = symbols.subspan(block.size());
      left_ -= block.size();
      if (run.coding == Run::Coding::kOneSymbol) {
        write_one_symbol(block);
      } else if (run.coding == Run::Coding::kHuffman &&
                 write_huffman(run, words, has_tree, block)) {
        has_tree = true;
      } else {
        write_header(BlockType::kRaw, block.size());
        const auto* bytes = reinterpret_cast<const std::byte*>(block.data());
        out_.insert(out_.end(), bytes, bytes + block.size());
      }
      is_first_ = false;
    }
  }

 private:
  std::uint64_t block_header(BlockType type, std::size_t size) const {
    return (left_ == 0 ? 1u : 0u) | static_cast<unsigned>(type) << 1 | size << 3;
  }

  void write_header(BlockType type, std::size_t size) {
    append_varint(out_, block_header(type, size), 3);
  }

  // Some old decoders refuse an RLE block at the start of a frame.
  void write_one_symbol(SymbolStream block) {
    const std::size_t n = block.size();
    const std::byte symbol{block[0]};
    if (!is_first_) {
      write_header(BlockType::kRle, n);
      out_.push_back(symbol);
      return;
    }
    const unsigned header_bytes = n < 32 ? 1 : n < 4096 ? 2 : 3;
    const unsigned size_format = n < 32 ? 0 : n < 4096 ? 1 : 3;
    write_header(BlockType::kCompressed, header_bytes + 2);
    const std::uint64_t size_field = n << (n < 32 ? 3 : 4);
    append_varint(out_, static_cast<unsigned>(LiteralsType::kRle) | size_format << 2 | size_field,
                  header_bytes);
    out_.push_back(symbol);
    out_.push_back(std::byte{0});  // no sequences
  }

  // Writes nothing and returns false where Huffman coding takes no fewer bytes than raw.
  bool write_huffman(const Run& run, const CodeWords& words, bool has_tree, SymbolStream block) {
    const std::size_t n = block.size();
    const std::size_t start = out_.size();
    const unsigned literals_header = n < 1024 ? 3 : n < 16384 ? 4 : 5;
    const std::size_t tree_bytes = has_tree ? 0 : run.tree.size();
    out_.resize(start + 3 + literals_header + tree_bytes + 6 + max_huffman_stream_bytes(n) + 64);
    std::byte* const coded = out_.data() + start + 3 + literals_header;
    std::copy_n(run.tree.begin(), tree_bytes, coded);
    std::byte* const end = write_streams(block, words, coded + tree_bytes);
    const auto coded_bytes = static_cast<std::size_t>(end - coded);
    const std::size_t body = literals_header + coded_bytes + 1;
    if (body >= n) {
      out_.resize(start);
      return false;
    }
    store_number(out_.data() + start, block_header(BlockType::kCompressed, body), 3);
    const auto type =
        static_cast<std::uint64_t>(has_tree ? LiteralsType::kTreeless : LiteralsType::kCompressed);
    const unsigned size_bits = n < 1024 ? 10 : n < 16384 ? 14 : 18;
    const std::uint64_t size_format = n < 1024 ? 0 : n < 16384 ? 2 : 3;
    store_number(out_.data() + start + 3,
                 type | size_format << 2 | n << 4 | coded_bytes << (4 + size_bits),
                 literals_header);
    *end = std::byte{0};  // no sequences
    out_.resize(start + 3 + body);
    return true;
  }

  // Writes one bit stream, or a table of three lengths and four bit streams.
  static std::byte* write_streams(SymbolStream block, const CodeWords& words, std::byte* to) {
    if (block.size() < 1024) {
      return write_huffman_stream(block, words, to);
    }
    const std::size_t quarter = (block.size() + 3) / 4;
    std::byte* const streams = to + 6;
    const TwoStreamEnds early = write_two_huffman_streams(
        block.first(quarter), block.subspan(quarter, quarter), words, streams);
    const TwoStreamEnds late = write_two_huffman_streams(
        block.subspan(2 * quarter, quarter), block.subspan(3 * quarter), words, early.second);
    store_number(to, static_cast<std::uint64_t>(early.first - streams), 2);
    store_number(to + 2, static_cast<std::uint64_t>(early.second - early.first), 2);
    store_number(to + 4, static_cast<std::uint64_t>(late.first - early.second), 2);
    return late.second;
  }

  std::size_t left_;  // symbols of the frame not yet written
  std::vector<std::byte>& out_;
  bool is_first_ = true;
};

}  // namespace

void write_literals_frame(std::span<const SymbolStream> streams, std::vector<std::byte>& out) {
  Scratch scratch;
  write_literals_frame(streams, scratch, out);
}

void write_literals_frame(std::span<const SymbolStream> streams, Scratch& scratch,
                          std::vector<std::byte>& out) {
  auto& [runs, joined] = scratch.part<FrameMemory>();
  plan_runs(streams, runs);
  std::size_t n_symbols = 0;
  for (const Run& run : runs) {
    n_symbols += run.n_symbols;
  }
  FrameWriter writer(n_symbols, out);
  // A run of several streams needs them next to each other.
  std::size_t next = 0;
  for (const Run& run : runs) {
    while (streams[next].empty()) {
      ++next;
    }
    SymbolStream symbols = streams[next++];
    if (symbols.size() < run.n_symbols) {
      joined.assign(symbols.begin(), symbols.end());
      while (joined.size() < run.n_symbols) {
        joined.insert(joined.end(), streams[next].begin(), streams[next].end());
        ++next;
      }
      symbols = joined;
    }
    writer.write(run, symbols);
  }
}

}  // namespace cfck::codec
