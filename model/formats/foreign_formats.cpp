#include "model/formats/foreign_formats.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include "base/text.hpp"
#include "model/formats/archive_format.hpp"

namespace cfck::model {
namespace {

struct Foreign {
  std::string_view magic;
  std::string_view what;
  // {0} is the path, as a Python string; {1} that of a .cfck file, {2} that of a .pt file.
  std::string_view way_out;
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

constexpr std::string_view kPickleWay =
    "its program knows what is in it; load it there, and store the tensors with "
    "cfck.torch.save_file or cfck.numpy.save_file (a pickle may run code: open those alone that "
    "you trust)";
constexpr std::string_view kTensorFlowWay =
    "convert it once in Python, where the name of a checkpoint is that of its files without their "
    "suffixes:\n"
    "import cfck.numpy, tensorflow as tf\n"
    "checkpoint = tf.train.load_checkpoint({0}.rsplit(\".\", 1)[0])\n"
    "names = [n for n, t in checkpoint.get_variable_to_dtype_map().items() if t != tf.string]\n"
    "cfck.numpy.save_file({n: checkpoint.get_tensor(n) for n in names}, {1})";
constexpr std::string_view kDistributedWay =
    "convert its folder once in Python (which unpickles .metadata: of folders alone that you "
    "trust), then the file:\n"
    "import os\n"
    "from torch.distributed.checkpoint.format_utils import dcp_to_torch_save\n"
    "dcp_to_torch_save(os.path.dirname({0}) or \".\", \"model.pt\")";
constexpr std::string_view kOrbaxWay =
    "restore it with orbax.checkpoint in Python and store the arrays with cfck.numpy.save_file";
constexpr std::string_view kZarrWay =
    "open it with zarr in Python and store the arrays with cfck.numpy.save_file";
constexpr std::string_view kUnpack = "unpack it first";

// A pickle of torch.save before torch 1.6 begins like this, behind the bytes for its protocol.
constexpr std::string_view kTorchMagic = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr std::string_view kTarMagic = "ustar";
constexpr std::size_t kTarMagicBytes = 257;  // where it is

constexpr Foreign kOldTorch = {
    {}, "a PyTorch checkpoint (a pickle, as before torch 1.6)", kTorchWay, kTorchLoads};
constexpr Foreign kPickle = {{}, "a pickle of another program than torch.save", kPickleWay};
constexpr Foreign kTar = {{}, "a tar file", kUnpack};
constexpr Foreign kTfLite = {
    {}, "a TensorFlow Lite model", "store the weights of the model that it was made from"};
constexpr Foreign kOnnx = {
    {},
    "an ONNX model",
    "convert its weights once in Python (pip install onnx):\n"
    "import cfck.numpy, onnx\n"
    "weights = onnx.load({0}).graph.initializer\n"
    "cfck.numpy.save_file({t.name: onnx.numpy_helper.to_array(t) for t in weights}, {1})"};

constexpr std::array kForeign = {
    Foreign{"GGUF", "a GGUF file", kGgufWay, "load it with gguf"},
    Foreign{"\x89HDF\r\n\x1a\n", "an HDF5 file", kHdf5Way, "load it with h5py"},
    Foreign{"version https://git-lfs", "a Git LFS pointer, not the file itself",
            "fetch the file: git lfs pull"},
    Foreign{std::string_view("\x00\x05\x16\x07", 4),
            "a file in which macOS keeps attributes of another one",
            "open the file whose name is this one's without the '._', and remove this one"},
    Foreign{"lmgg", "a GGML file", "convert it to GGUF with the tools of llama.cpp first"},
    Foreign{"fmgg", "a GGML file", "convert it to GGUF with the tools of llama.cpp first"},
    Foreign{"tjgg", "a GGML file", "convert it to GGUF with the tools of llama.cpp first"},
    Foreign{"\x1f\x8b", "a gzip file", kUnpack},
    Foreign{"\x28\xb5\x2f\xfd", "a zstd file", kUnpack},
    Foreign{"BZh", "a bzip2 file", kUnpack},
    Foreign{std::string_view("\xfd\x37zXZ\0", 6), "an xz file", kUnpack},
    Foreign{"\x04\x22\x4d\x18", "an lz4 file", kUnpack},
    Foreign{"7z\xbc\xaf\x27\x1c", "a 7z archive", kUnpack},
    Foreign{"Rar!\x1a\x07", "a RAR archive", kUnpack},
    Foreign{"MATLAB 5.0 MAT-file", "a MATLAB file",
            "load it with scipy.io.loadmat in Python and store the arrays with "
            "cfck.numpy.save_file"},
    Foreign{"PAR1", "a Parquet file", "its tables are no tensors"},
    Foreign{"ARROW1", "an Arrow file", "its tables are no tensors"},
    Foreign{"%PDF-", "a PDF", "download the model itself"},
    Foreign{"\x89PNG\r\n", "a picture", "download the model itself"},
};

// Formats whose first bytes say nothing, or say no more than what they are packed with.
struct NamedForeign {
  std::string_view suffix;
  std::string_view begin;  // of the file
  Foreign foreign;
};
constexpr NamedForeign kNamed[] = {
    {".distcp",
     "PK",
     {{}, "a part of a checkpoint of torch.distributed.checkpoint", kDistributedWay}},
    {".distcp",
     "",
     {{}, "a part of a checkpoint of torch.distributed.checkpoint", kDistributedWay}},
    {"/.metadata",
     "\x80",
     {{}, "the index of a checkpoint of torch.distributed.checkpoint", kDistributedWay}},
    {".pdparams",
     "\x80",
     {{},
      "a checkpoint of PaddlePaddle",
      "load it with paddle.load in Python and store the arrays with cfck.numpy.save_file"}},
    {".mar", "PK", {{}, "a model archive of TorchServe, a zip file", kUnpack}},
    {".msgpack",
     "",
     {{},
      "a checkpoint of Flax (msgpack)",
      "restore it with flax.serialization.msgpack_restore in Python and store the arrays with "
      "cfck.numpy.save_file"}},
    {".onnx", "", kOnnx},
    {".tflite", "", kTfLite},
    {".caffemodel",
     "",
     {{},
      "a Caffe model",
      "load it with OpenCV or Caffe and store the arrays with "
      "cfck.numpy.save_file"}},
    {".mlmodel",
     "",
     {{}, "a Core ML model", "store the weights of the model that it was made from"}},
    {".pb",
     "",
     {{}, "a graph of TensorFlow", "convert the checkpoint beside it (variables/variables.index)"}},
    {".index", "", {{}, "the index of a TensorFlow checkpoint", kTensorFlowWay}},
};

// Folders that other programs write, by the name of a file that they have.
constexpr NamedForeign kFolders[] = {
    {".distcp",
     {},
     {{},
      "a checkpoint of torch.distributed.checkpoint",
      "convert it once in Python (which unpickles .metadata: of folders alone that you trust), "
      "then "
      "the file:\n"
      "from torch.distributed.checkpoint.format_utils import dcp_to_torch_save\n"
      "dcp_to_torch_save({0}, {2})"}},
    {"/zero_to_fp32.py",
     {},
     {{},
      "a checkpoint of DeepSpeed, whose parts are joined first",
      "run the zero_to_fp32.py in it, and convert what that writes"}},
    {"/saved_model.pb",
     {},
     {{},
      "a SavedModel of TensorFlow",
      "convert it once in Python:\n"
      "import cfck.numpy, tensorflow as tf\n"
      "checkpoint = tf.train.load_checkpoint({0} + \"/variables/variables\")\n"
      "names = [n for n, t in checkpoint.get_variable_to_dtype_map().items() if t != tf.string]\n"
      "cfck.numpy.save_file({n: checkpoint.get_tensor(n) for n in names}, {1})"}},
    {".data-00000-of-00001",
     {},
     {{},
      "a checkpoint of TensorFlow",
      "`cfck inspect` of its .index file says how to convert it"}},
    {"/manifest.ocdbt", {}, {{}, "a checkpoint of Orbax", kOrbaxWay}},
    {"/_CHECKPOINT_METADATA", {}, {{}, "a checkpoint of Orbax", kOrbaxWay}},
    {"/.zarray", {}, {{}, "a store of Zarr", kZarrWay}},
    {"/.zgroup", {}, {{}, "a store of Zarr", kZarrWay}},
    {"/zarr.json", {}, {{}, "a store of Zarr", kZarrWay}},
    {".gguf",
     {},
     {{}, "one with GGUF files", "`cfck inspect` of one of them says how to convert it"}},
    {".onnx",
     {},
     {{}, "one with ONNX models", "`cfck inspect` of one of them says how to convert it"}},
};

// True for "model.ckpt.data-00000-of-00001".
bool is_tensorflow_data(std::string_view path) {
  const std::size_t at = path.rfind(".data-");
  return at != path.npos && path.find("-of-", at) != path.npos && path.find('/', at) == path.npos;
}

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
      const auto byte = static_cast<unsigned char>(path[0]);
      quoted.append("\\udc").append({kHexDigits[byte >> 4], kHexDigits[byte & 15]});
    } else {
      quoted += path[0] == '"' ? "\\\"" : escaped(path.substr(0, n_bytes));
    }
    path.remove_prefix(std::max<std::size_t>(n_bytes, 1));
  }
  return quoted + '"';
}

// Returns `text` with {0}, {1} and {2} replaced, in one pass: paths may contain either.
std::string filled_in(std::string_view text, std::span<const std::string> paths) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::string_view here = text.substr(at, 3);
    if (here.size() == 3 && here[0] == '{' && here[1] >= '0' && here[1] <= '2' && here[2] == '}') {
      out += paths[static_cast<std::size_t>(here[1] - '0')];
      at += 2;
    } else {
      out += text[at];
    }
  }
  return out;
}

std::string renamed(const std::string& path, std::string_view suffix) {
  const std::size_t slash = path.rfind('/');
  const std::size_t dot = path.rfind('.');
  const bool has_suffix =
      dot != std::string::npos && dot != 0 && (slash == std::string::npos || dot > slash + 1);
  return std::string(path, 0, has_suffix ? dot : path.size()).append(suffix);
}

// A message of protobuf that begins as a ModelProto of ONNX does: ir_version, then a producer.
bool begins_onnx(std::string_view head) {
  constexpr unsigned kMaxVersion = 32;
  return head.size() > 4 && head[0] == '\x08' &&
         static_cast<unsigned char>(head[1]) < kMaxVersion && head[2] == '\x12' &&
         static_cast<unsigned char>(head[3]) == head.substr(4).find('\x1a');
}

// True for the index that Keras 3 writes beside several files of weights. It is JSON.
bool is_keras_index(std::string_view head, const std::string& path) {
  return path.ends_with(".weights.json") && head.starts_with("{");
}

const Foreign* find_foreign(std::string_view head) {
  if (head.size() > kTarMagicBytes && head.substr(kTarMagicBytes).starts_with(kTarMagic)) {
    return &kTar;
  }
  const auto found = std::find_if(kForeign.begin(), kForeign.end(), [&](const Foreign& format) {
    return head.starts_with(format.magic);
  });
  if (found != kForeign.end()) return &*found;
  if (head.size() > 1 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5) {
    constexpr std::size_t kMaxBefore = 11;  // the protocol, and a frame
    return head.substr(2, kMaxBefore + kTorchMagic.size()).find(kTorchMagic) != head.npos
               ? &kOldTorch
               : &kPickle;
  }
  if (head.substr(0, 8).ends_with("TFL3")) return &kTfLite;
  return begins_onnx(head) ? &kOnnx : nullptr;
}

// `path` may be that of a folder's file, or a name alone.
const Foreign* find_named(std::string_view head, std::string_view path) {
  static constexpr Foreign kData = {{}, "the data of a TensorFlow checkpoint", kTensorFlowWay};
  // A file that is read here may have any name.
  const bool is_unknown = recognised(head) == nullptr;
  if (is_unknown && is_tensorflow_data(path)) return &kData;
  const std::string below = "/" + std::string(path);
  const auto found = std::find_if(std::begin(kNamed), std::end(kNamed), [&](const auto& named) {
    return below.ends_with(named.suffix) && head.starts_with(named.begin) &&
           (is_unknown || !named.begin.empty());
  });
  return found == std::end(kNamed) ? nullptr : &found->foreign;
}

// True for characters of lines, the last of which may be cut off.
bool is_text(std::string_view head) {
  const bool is_printed = std::all_of(head.begin(), head.end(), [](unsigned char c) {
    return c >= 0x20 || (c >= '\t' && c <= '\r');
  });
  constexpr std::size_t kMaxCutBytes = 3;
  for (std::size_t cut = 0; is_printed && cut <= std::min(kMaxCutBytes, head.size()); ++cut) {
    if (valid_utf8(head.substr(0, head.size() - cut))) return true;
    if (head.size() < kHeadBytes) break;
  }
  return false;
}

// Returns what a file seems to be that begins like this; empty: nothing known.
std::string apparent_contents(std::string_view head) {
  if (head.find_first_not_of('\0') == head.npos) {
    return "it begins with zero bytes only; download it again";
  }
  constexpr std::string_view kMark = "\xef\xbb\xbf";  // of UTF-8, which some pages begin with
  std::string_view text = head.substr(head.starts_with(kMark) ? kMark.size() : 0);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  constexpr std::size_t kShownBytes = 48;
  const std::string shown = "('" + escaped(text.substr(0, kShownBytes)) + "')";
  constexpr std::string_view kPages[] = {"<!", "<html", "<HTML", "<?xml", "<head", "<body"};
  const bool is_page = std::any_of(std::begin(kPages), std::end(kPages),
                                   [&](std::string_view page) { return text.starts_with(page); });
  if (is_page) {
    return "it seems to be a web page or an answer in XML " + shown +
           ", as a failed download leaves it; log in or accept the terms where that is asked for, "
           "and download it again";
  }
  if (!is_text(head)) return {};
  if (text.starts_with('{') || text.starts_with('[')) {
    return "it seems to be JSON " + shown +
           ", such as the answer of a server that refused a download; if so, download it again";
  }
  return "it seems to be text " + shown;
}

Error error_of(const Foreign& foreign, const std::string& path) {
  const std::string paths[] = {python_string(path), python_string(renamed(path, ".cfck")),
                               python_string(renamed(path, ".pt"))};
  return unsupported(std::string("this is ")
                         .append(foreign.what)
                         .append("; ")
                         .append(filled_in(foreign.way_out, paths)));
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
  return error_of(*foreign, path);
}

std::optional<Error> foreign_by_name(std::string_view head, const std::string& path) {
  const Foreign* const foreign = find_named(head, path);
  if (foreign == nullptr) return std::nullopt;
  return error_of(*foreign, path);
}

std::optional<Error> foreign_folder(const std::string& folder, std::span<const std::string> files) {
  for (const NamedForeign& kind : kFolders) {
    const bool is_kind = std::any_of(files.begin(), files.end(), [&](const std::string& file) {
      return ("/" + file).ends_with(kind.suffix);
    });
    if (!is_kind) continue;
    Error error = error_of(kind.foreign, folder);
    error.message.replace(0, std::string_view("this").size(),
                          "the folder '" + escaped(folder) + "'");
    return error;
  }
  return std::nullopt;
}

std::optional<Error> no_tensors(std::string_view head, std::string_view title) {
  const std::string contents = apparent_contents(head);
  if (contents.empty()) return std::nullopt;
  const std::string what =
      title.empty() ? "this is no file of tensors: "
                    : "this is not " + std::string(title) + ", though it is called one: ";
  return corrupt(what + contents).at_byte(0);
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
