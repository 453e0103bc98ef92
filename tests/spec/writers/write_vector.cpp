// write_vector RECIPE.json DATA.bin OUT.cfck: makes one test vector. The recipe
// says what the calls to the library are, DATA.bin holds the values. It is used
// by spec/vectors/make_vectors.py, which writes both.
#include <zstd.h>

#include <cstdio>
#include <deque>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cfck/cfck.hpp"

namespace {

using nlohmann::json;

cfck::Error wrong_recipe(const std::string& message) {
  return {cfck::ErrorCode::kInvalidArgument, message, {}, {}};
}

cfck::Result<std::vector<std::byte>> read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return wrong_recipe("cannot open " + path);
  }
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  return std::vector<std::byte>(first, first + bytes.size());
}

std::optional<double> number(const json& step, const char* key) {
  return step.contains(key) ? std::optional(step[key].get<double>()) : std::nullopt;
}

// "codec", "max_abs_error" and so on; what is missing is as in `otherwise`.
cfck::Result<cfck::TensorOptions> tensor_options(const json& step, cfck::CodecChoice otherwise) {
  cfck::TensorOptions options;
  const auto codec = cfck::codec_choice_from_name(step.value("codec", "auto"));
  if (!codec) {
    return wrong_recipe("no such codec");
  }
  options.codec = step.contains("codec") ? *codec : otherwise;
  options.max_abs_error = number(step, "max_abs_error");
  options.max_rel_error = number(step, "max_rel_error");
  options.max_sigma_error = number(step, "max_sigma_error");
  options.per_row = step.value("per_row", false);
  options.nmse = number(step, "nmse");
  options.psnr = number(step, "psnr");
  options.bits_per_weight = number(step, "bits_per_weight");
  if (step.contains("step_preset")) {
    options.steps = cfck::step_preset_from_name(step.at("step_preset").get<std::string>());
    if (!options.steps) {
      return wrong_recipe("no such step preset");
    }
  }
  if (step.contains("trellis_states")) {
    options.trellis_states = step.at("trellis_states").get<unsigned>();
  }
  return options;
}

cfck::Result<cfck::DType> dtype_of(const json& step) {
  const auto dtype = cfck::dtype_from_name(step.at("dtype").get<std::string>());
  if (!dtype) {
    return wrong_recipe("no such dtype");
  }
  return *dtype;
}

// Plays the steps of a recipe.
class Recipe {
 public:
  Recipe(json recipe, const std::vector<std::byte>& data)
      : recipe_(std::move(recipe)), data_(data), source_(data) {}

  cfck::Result<void> play(const std::string& out) {
    cfck::EncodeOptions options;
    CFCK_TRY_ASSIGN(const cfck::TensorOptions plain,
                    tensor_options(recipe_, cfck::CodecChoice::kAuto));
    options.set_tensor_options(plain);
    options.threads = recipe_.value("threads", 1U);
    options.chunk_elems = recipe_.value("chunk_elems", 0U);
    const auto entropy = cfck::entropy_choice_from_name(recipe_.value("entropy", "zstd"));
    if (!entropy) {
      return wrong_recipe("no such entropy stage");
    }
    options.entropy = *entropy;
    CFCK_TRY_ASSIGN(options.base, base());
    CFCK_TRY_ASSIGN(auto file, cfck::AtomicFile::create(out, {}));
    CFCK_TRY_ASSIGN(auto writer, cfck::Writer::create(*file, options));
    for (const json& step : recipe_.at("steps")) {
      CFCK_TRY(play_step(writer, step, options.codec));
    }
    CFCK_TRY_ASSIGN([[maybe_unused]] const cfck::WriteSummary summary, writer.finish());
    CFCK_TRY(file->commit());
    options.base = nullptr;  // updates keep that of the file
    for (const json& step : recipe_.value("updates", json::array())) {
      CFCK_TRY(play_update(step, out, options));
    }
    return {};
  }

 private:
  // The file that the new one is stored against, or its tensors as they are in memory.
  cfck::Result<std::shared_ptr<const cfck::Base>> base() {
    if (!recipe_.contains("base")) {
      return std::shared_ptr<const cfck::Base>();
    }
    const auto path = recipe_.at("base").get<std::string>();
    if (!recipe_.at("base_in_memory").get<bool>()) {
      return cfck::open_base(path);
    }
    CFCK_TRY_ASSIGN(const cfck::Reader reader, cfck::Reader::open(path));
    std::vector<cfck::NamedTensor> named;
    for (const cfck::Record& record : reader.records()) {
      if (!record.hidden) {
        CFCK_TRY_ASSIGN(cfck::OwnedTensor read, reader.read(record));
        const cfck::OwnedTensor& tensor = base_tensors_.emplace_back(std::move(read));
        named.push_back({record.name, {tensor.dtype(), tensor.shape(), tensor.bytes()}});
      }
    }
    return cfck::base_in_memory(named);
  }

  cfck::Result<void> play_step(cfck::Writer& writer, const json& step,
                               cfck::CodecChoice codec) const {
    const auto op = step.at("op").get<std::string>();
    if (op == "add") {
      CFCK_TRY_ASSIGN(const cfck::TensorOptions choice, tensor_options(step, codec));
      CFCK_TRY_ASSIGN(const cfck::DType dtype, dtype_of(step));
      const cfck::TensorSource tensor{dtype, step.at("shape").get<cfck::Shape>(), &source_,
                                      step.at("offset").get<std::uint64_t>()};
      return writer.add(step.at("name").get<std::string>(), tensor, choice);
    }
    if (op == "alias") {
      return writer.add_alias(
          step.at("name").get<std::string>(), step.at("base").get<std::string>(),
          step.at("element_offset").get<std::uint64_t>(), step.at("shape").get<cfck::Shape>(),
          step.at("strides").get<std::vector<std::uint64_t>>());
    }
    if (op == "family") {
      CFCK_TRY_ASSIGN(const auto tensors, strided(step.at("tensors")));
      return writer.add_tensors(tensors);
    }
    if (op == "metadata") {
      return writer.set_metadata(step.at("key").get<std::string>(),
                                 step.at("value").get<std::string>());
    }
    if (op == "attach") {
      const auto offset = step.at("offset").get<std::size_t>();
      const auto length = step.at("length").get<std::size_t>();
      return writer.attach(step.at("name").get<std::string>(),
                           cfck::ByteView(data_).subspan(offset, length));
    }
    return wrong_recipe("no such step: " + op);
  }

  cfck::Result<void> play_update(const json& step, const std::string& path,
                                 const cfck::EncodeOptions& options) const {
    cfck::Update update;
    CFCK_TRY_ASSIGN(update.tensors, strided(step.at("tensors")));
    update.remove = step.at("remove").get<std::vector<std::string>>();
    update.metadata = step.at("metadata").get<cfck::Metadata>();
    CFCK_TRY_ASSIGN([[maybe_unused]] const cfck::WriteSummary summary,
                    cfck::update(path, update, options));
    return {};
  }

  cfck::Result<std::vector<cfck::StridedTensor>> strided(const json& list) const {
    std::vector<cfck::StridedTensor> tensors;
    for (const json& item : list) {
      cfck::StridedTensor& tensor = tensors.emplace_back();
      tensor.name = item.at("name").get<std::string>();
      CFCK_TRY_ASSIGN(tensor.dtype, dtype_of(item));
      tensor.shape = item.at("shape").get<cfck::Shape>();
      tensor.strides = item.at("strides").get<std::vector<std::uint64_t>>();
      tensor.data = data_.data() + item.at("offset").get<std::size_t>();
    }
    return tensors;
  }

  json recipe_;
  std::deque<cfck::OwnedTensor> base_tensors_;
  const std::vector<std::byte>& data_;
  cfck::MemorySource source_;
};

cfck::Result<void> run(const std::string& recipe_path, const std::string& data_path,
                       const std::string& out) {
  CFCK_TRY_ASSIGN(const auto text, read_all(recipe_path));
  CFCK_TRY_ASSIGN(const auto data, read_all(data_path));
  const auto* first = reinterpret_cast<const char*>(text.data());
  json recipe = json::parse(first, first + text.size(), nullptr, false);
  if (recipe.is_discarded()) {
    return wrong_recipe("the recipe is no JSON");
  }
  return Recipe(std::move(recipe), data).play(out);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--libzstd") {
    std::puts(ZSTD_versionString());
    return 0;
  }
  if (argc != 4) {
    std::fputs("usage: write_vector RECIPE.json DATA.bin OUT.cfck | --libzstd\n", stderr);
    return 2;
  }
  try {
    if (const auto result = run(argv[1], argv[2], argv[3]); !result) {
      std::fprintf(stderr, "write_vector: %s\n", result.error().to_string().c_str());
      return 1;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "write_vector: %s\n", error.what());
    return 1;
  }
  return 0;
}
