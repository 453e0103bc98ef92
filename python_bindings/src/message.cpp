#include "cfck/message.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cfck/cuda.hpp"
#include "errors.hpp"

namespace cfck::python {
namespace {

using namespace nb::literals;

using Dimensions = std::vector<std::uint64_t>;

// Each thread has its own, which lives as long as the thread.
MessageWorkspace& workspace() {
  thread_local MessageWorkspace memory;
  return memory;
}

MessageOptions message_options(const EncodeOptions& given) {
  MessageOptions options;
  options.codec = given.codec;
  options.max_abs_error = given.max_abs_error;
  options.max_rel_error = given.max_rel_error;
  options.max_sigma_error = given.max_sigma_error;
  options.per_row = given.per_row;
  options.entropy = given.entropy;
  options.level = given.level;
  options.chunk_elems = given.chunk_elems;
  if (const auto learned = given.learned_steps.find(""); learned != given.learned_steps.end()) {
    options.learned_steps = learned->second;
  }
  return options;
}

// A tensor that lies contiguously in host memory.
TensorView tensor_at(const std::string& dtype_name, Dimensions shape, std::uintptr_t address) {
  const auto dtype = dtype_from_name(dtype_name);
  if (!dtype) raise(unsupported("there is no dtype \"" + dtype_name + "\""));
  const std::uint64_t size = take(n_bytes(*dtype, shape));
  return {*dtype, std::move(shape), {reinterpret_cast<const std::byte*>(address), size}, {}};
}

nb::bytes encode_bytes(const std::string& dtype, Dimensions shape, std::uintptr_t address,
                       const EncodeOptions& given) {
  const TensorView tensor = tensor_at(dtype, std::move(shape), address);
  const MessageOptions options = message_options(given);
  const std::uint64_t most = take(max_message_bytes(options, tensor.dtype, tensor.shape));
  PyObject* bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(most));
  if (bytes == nullptr) throw nb::python_error();
  const MutableBytes out(reinterpret_cast<std::byte*>(PyBytes_AS_STRING(bytes)), most);
  const auto n_bytes =
      without_gil([&] { return encode_message(tensor, options, out, workspace()); });
  if (!n_bytes) {
    Py_DECREF(bytes);
    raise(n_bytes.error());
  }
  // Gives back what is left; bytes is nullptr where that fails.
  if (_PyBytes_Resize(&bytes, static_cast<Py_ssize_t>(*n_bytes)) != 0) throw nb::python_error();
  return nb::steal<nb::bytes>(bytes);
}

std::uint64_t encode_into(const std::string& dtype, Dimensions shape, std::uintptr_t address,
                          const EncodeOptions& given, std::uintptr_t out_address,
                          std::uint64_t out_bytes) {
  const TensorView tensor = tensor_at(dtype, std::move(shape), address);
  const MessageOptions options = message_options(given);
  const MutableBytes out(reinterpret_cast<std::byte*>(out_address), out_bytes);
  return take(without_gil([&] { return encode_message(tensor, options, out, workspace()); }));
}

std::tuple<std::string, Dimensions, std::uint64_t> info_at(std::uintptr_t address,
                                                           std::uint64_t n_bytes) {
  const MessageInfo info =
      take(message_info({reinterpret_cast<const std::byte*>(address), n_bytes}));
  return {std::string(dtype_name(info.dtype)), info.shape, info.n_bytes};
}

void decode_at(std::uintptr_t address, std::uint64_t n_bytes, std::uintptr_t out_address,
               std::uint64_t out_bytes) {
  const ByteView message(reinterpret_cast<const std::byte*>(address), n_bytes);
  const MutableBytes out(reinterpret_cast<std::byte*>(out_address), out_bytes);
  take(without_gil([&] { return decode_message(message, out, workspace()); }));
}

// An encoder of messages that are made at once, with memory of the caller.
class MessageEncoder {
 public:
  MessageEncoder(const std::vector<std::pair<std::string, Dimensions>>& tensors,
                 const EncodeOptions& given, int device, std::uint64_t scratch_bytes)
      : device_(device) {
    const MessageOptions options = message_options(given);
    std::vector<cuda::MessageTensor> planned;
    for (const auto& [dtype_name, shape] : tensors) {
      const TensorView tensor = tensor_at(dtype_name, shape, 0);
      most_bytes_.push_back(take(max_message_bytes(options, tensor.dtype, tensor.shape)));
      planned.push_back({tensor.dtype, tensor.shape});
    }
    encoder_.emplace(take(without_gil([&] {
      return cuda::Encoder::plan(options, planned, device, {.scratch_bytes = scratch_bytes});
    })));
  }

  bool tries_device() const { return encoder_->tries_device(); }
  std::size_t workspace_bytes() const { return encoder_->workspace_bytes(); }
  std::size_t staging_bytes() const { return encoder_->staging_bytes(); }
  // A single message needs nothing of what goes up to a multiple of 256.
  std::uint64_t out_bytes() const {
    return most_bytes_.size() == 1 ? most_bytes_.front() : encoder_->out_bytes();
  }
  std::vector<std::uint64_t> offsets() const {
    std::vector<std::uint64_t> all;
    for (std::size_t i = 0; i < most_bytes_.size(); ++i) {
      all.push_back(encoder_->offset_of(i));
    }
    return all;
  }

  std::vector<std::uint64_t> run(const std::vector<std::uintptr_t>& values, std::uintptr_t out,
                                 std::uint64_t n_out, std::uintptr_t workspace,
                                 std::uintptr_t staging, std::uint64_t staging_bytes,
                                 std::uintptr_t stream) {
    if (n_out < out_bytes()) {
      raise(invalid_argument("the message may take " + std::to_string(out_bytes()) +
                             " bytes, and there is space for " + std::to_string(n_out) +
                             "; ask max_message_bytes()"));
    }
    std::vector<const void*> addresses;
    for (const std::uintptr_t address : values) {
      addresses.push_back(reinterpret_cast<const void*>(address));
    }
    return take(without_gil([&]() -> Result<std::vector<std::uint64_t>> {
      const MutableBytes memory(reinterpret_cast<std::byte*>(staging), staging_bytes);
      CFCK_TRY(encoder_->enqueue(addresses, reinterpret_cast<void*>(out),
                                 reinterpret_cast<void*>(workspace), memory,
                                 {device_, reinterpret_cast<void*>(stream)}));
      return encoder_->finish_all();
    }));
  }

 private:
  const int device_;
  std::vector<std::uint64_t> most_bytes_;
  std::optional<cuda::Encoder> encoder_;
};

}  // namespace

void bind_message(nb::module_& module) {
  nb::class_<MessageEncoder>(module, "MessageEncoder",
                             "Encodes tensors in the memory of a device as messages there.")
      .def(nb::init<const std::vector<std::pair<std::string, Dimensions>>&, const EncodeOptions&,
                    int, std::uint64_t>(),
           "tensors"_a, "options"_a, "device"_a, "scratch_bytes"_a)
      .def_prop_ro("tries_device", &MessageEncoder::tries_device)
      .def_prop_ro("workspace_bytes", &MessageEncoder::workspace_bytes)
      .def_prop_ro("staging_bytes", &MessageEncoder::staging_bytes)
      .def_prop_ro("out_bytes", &MessageEncoder::out_bytes)
      .def_prop_ro("offsets", &MessageEncoder::offsets, "Where messages begin in the memory.")
      .def("run", &MessageEncoder::run, "values"_a, "out"_a, "out_bytes"_a, "workspace"_a,
           "staging"_a, "staging_bytes"_a, "stream"_a, "Returns the lengths of the messages.");
  module.def(
      "max_message_bytes",
      [](const std::string& dtype, Dimensions shape, const EncodeOptions& options) {
        const TensorView tensor = tensor_at(dtype, std::move(shape), 0);
        return take(max_message_bytes(message_options(options), tensor.dtype, tensor.shape));
      },
      "dtype"_a, "shape"_a, "options"_a, "The most bytes that a message of the tensor has.");
  module.def("encode_message", &encode_bytes, "dtype"_a, "shape"_a, "address"_a, "options"_a,
             "Encodes a contiguous tensor of the host.");
  module.def("encode_message_into", &encode_into, "dtype"_a, "shape"_a, "address"_a, "options"_a,
             "out"_a, "out_bytes"_a, "The same, into memory; returns the length of the message.");
  module.def("message_info", &info_at, "address"_a, "n_bytes"_a,
             "Returns dtype, shape and decoded bytes of a message, unverified.");
  module.def("decode_message", &decode_at, "address"_a, "n_bytes"_a, "out"_a, "out_bytes"_a,
             "Verifies a message and decodes it into memory.");
}

}  // namespace cfck::python
