#include "model/foreign_formats.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace cfck::model {
namespace {

struct Foreign {
  std::string_view magic;
  std::string_view what;
  std::string_view way_out;  // {0} is the path, as a Python string; {1} that of a .cfck file
  // The way for a Python program that has the file at hand; empty: `way_out`.
  std::string_view in_python = {};
};

// Lines that Python accepts unchanged, from a file or typed one by one: none is indented, no
// statement has a block.
constexpr std::string_view kTorchWay =
    "convert it once in Python, nested containers and plain values included:\n"
    "import torch, cfck.torch\n"
    "state = torch.load({0}, map_location=\"cpu\", weights_only=True)\n"
    "cfck.torch.save_checkpoint(state, {1})";
constexpr std::string_view kTorchLoads = "load it with torch.load";
constexpr std::string_view kGgufWay =
    "convert it once in Python (pip install gguf; its blocks are decoded to float):\n"
    "import cfck.numpy, gguf\n"
    "tensors = gguf.GGUFReader({0}).tensors\n"
    "cfck.numpy.save_file({t.name: gguf.dequantize(t.data, t.tensor_type) for t in tensors}, "
    "{1})";
// All names of a dataset, also those that are links to it; links to other files are not followed.
constexpr std::string_view kHdf5Way =
    "convert it once in Python (pip install h5py), without strings and attributes:\n"
    "import cfck.numpy, h5py\n"
    "file = h5py.File({0})\n"
    "names = []\n"
    "file.id.links.visit(lambda name: names.append(name.decode()))\n"
    "links = [n for n in names if isinstance(file.get(n, getlink=True), h5py.HardLink)]\n"
    "items = {n: file[n] for n in links if isinstance(file[n], h5py.Dataset)}\n"
    "kept = {n: d for n, d in items.items() if d.shape is not None and d.dtype.kind not in "
    "\"OSU\"}\n"
    "cfck.numpy.save_file({n: d[()] for n, d in kept.items()}, {1})";

constexpr std::array kForeign = {
    Foreign{"\x80\x02", "a PyTorch checkpoint (a pickle, as before torch 1.6)", kTorchWay,
            kTorchLoads},
    Foreign{"\x80\x03", "a PyTorch checkpoint (a pickle, as before torch 1.6)", kTorchWay,
            kTorchLoads},
    Foreign{"\x80\x04", "a PyTorch checkpoint (a pickle, as before torch 1.6)", kTorchWay,
            kTorchLoads},
    Foreign{"\x80\x05", "a PyTorch checkpoint (a pickle, as before torch 1.6)", kTorchWay,
            kTorchLoads},
    Foreign{"GGUF", "a GGUF file", kGgufWay, "load it with gguf"},
    Foreign{"\x89HDF\r\n\x1a\n", "an HDF5 file", kHdf5Way, "load it with h5py"},
    Foreign{"version https://git-lfs", "a Git LFS pointer, not the file itself",
            "fetch the file: git lfs pull"},
    Foreign{"\x1f\x8b", "a gzip file", "unpack it first"},
    Foreign{"\x28\xb5\x2f\xfd", "a zstd file", "unpack it first"},
    Foreign{"ustar", "a tar file", "unpack it first"},
};

// Returns the length of the UTF-8 character that begins `text`, or 0.
std::size_t character_bytes(std::string_view text) {
  std::size_t n_bytes = 1;
  while (n_bytes <= std::min<std::size_t>(4, text.size())) {
    if (valid_utf8(text.substr(0, n_bytes))) return n_bytes;
    ++n_bytes;
  }
  return 0;
}

// Returns a Python string literal for a path. Bytes that are not UTF-8 become the surrogates that
// stand for them in Python's file names.
std::string python_string(std::string_view path) {
  std::string quoted = "\"";
  while (!path.empty()) {
    const std::size_t n_bytes = character_bytes(path);
    if (n_bytes == 0) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(path[0]);
      quoted.append("\\udc").append({kDigits[byte >> 4], kDigits[byte & 15]});
    } else {
      quoted += path[0] == '"' ? "\\\"" : escaped(path.substr(0, n_bytes));
    }
    path.remove_prefix(std::max<std::size_t>(n_bytes, 1));
  }
  return quoted + '"';
}

// Returns `text` with {0} and {1} replaced, in one pass: paths may contain either.
std::string filled_in(std::string_view text, std::string_view path, std::string_view cfck_path) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::string_view here = text.substr(at, 3);
    if (here == "{0}" || here == "{1}") {
      out += here == "{0}" ? path : cfck_path;
      at += 2;
    } else {
      out += text[at];
    }
  }
  return out;
}

std::string cfck_name(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::size_t dot = path.rfind('.');
  const bool has_suffix =
      dot != std::string::npos && dot != 0 && (slash == std::string::npos || dot > slash + 1);
  return (has_suffix ? path.substr(0, dot) : path) + ".cfck";
}

// Of Keras 3, beside the files of weights: the file is text, and begins as JSON does.
bool is_keras_index(std::string_view head, const std::string& path) {
  return path.ends_with(".weights.json") && head.starts_with("{");
}

const Foreign* find_foreign(std::string_view head) {
  if (head.size() > 262 && head.substr(257).starts_with("ustar")) return &kForeign.back();
  const auto found = std::find_if(kForeign.begin(), kForeign.end() - 1, [&](const Foreign& format) {
    return head.starts_with(format.magic);
  });
  return found == kForeign.end() - 1 ? nullptr : &*found;
}

}  // namespace

std::optional<Error> foreign_format(std::string_view head, const std::string& path) {
  if (is_keras_index(head, path)) {
    return unsupported(
        "this is the index of weights that Keras saved in several files; convert each of the "
        ".weights.h5 files that it names, or load it in Keras and save the weights in one file: "
        "model.load_weights(" +
        python_string(path) + "), then model.save_weights(\"model.weights.h5\")");
  }
  const Foreign* const foreign = find_foreign(head);
  if (foreign == nullptr) return std::nullopt;
  const std::string way =
      filled_in(foreign->way_out, python_string(path), python_string(cfck_name(path)));
  return unsupported(std::string("this is ").append(foreign->what).append("; ").append(way));
}

std::optional<Error> foreign_in_python(std::string_view head, std::string_view name) {
  const Foreign* const foreign = find_foreign(head);
  if (foreign == nullptr) return std::nullopt;
  const std::string_view way = foreign->in_python.empty() ? foreign->way_out : foreign->in_python;
  return unsupported(escaped(name)
                         .append(" is not a cfck file but ")
                         .append(foreign->what)
                         .append(": ")
                         .append(way));
}

}  // namespace cfck::model
