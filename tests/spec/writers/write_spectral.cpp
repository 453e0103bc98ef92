// write_spectral CASES.json DATA.bin OUT.bin: chunks of the spectral codec for
// test_spectral_*.py, which writes both inputs. A case encodes values or decodes a
// payload; OUT.bin is described in case_files.hpp.
#include <cstring>
#include <optional>

#include "spectral/chunk/spectral.hpp"
#include "tests/spec/writers/case_files.hpp"

namespace {

using nlohmann::json;
using namespace cfck;
using namespace cfck::spectral;
using namespace cfck::test;

QuarterField field_of(const json& item, const char* name) {
  QuarterField field;
  if (item.contains(name)) {
    const json& vectors = item.at(name);
    field.bands = vectors.value("bands", field.bands);
    field.rows = vectors.value("rows", field.rows);
    field.columns = vectors.value("columns", field.columns);
  }
  return field;
}

SpectralParameters parameters_of(const json& item) {
  SpectralParameters parameters;
  parameters.n_states = item.at("states").get<unsigned>();
  parameters.transforms = item.value("transforms", false);
  parameters.order = static_cast<CoefficientOrder>(item.value("order", 0));
  parameters.step = item.at("step").get<double>();
  parameters.sides = item.value("sides", BlockSides());
  parameters.has_ranges = item.value("ranges", false);
  parameters.scales = field_of(item, "scales");
  parameters.steps = field_of(item, "steps");
  return parameters;
}

Result<void> decode(const SpectralChunkInfo& info, Scratch& scratch, Outcome& outcome) {
  outcome.decoded.resize(info.n_elems * bits_per_element(info.dtype) / 8);
  CFCK_TRY_ASSIGN(const std::uint32_t body_bytes, spectral_body_bytes(info, outcome.payload));
  CFCK_TRY(decode_spectral(info, outcome.payload, scratch, outcome.decoded));
  if (body_bytes > outcome.payload.size()) {
    throw std::runtime_error("a body longer than the payload was decoded");
  }
  return {};
}

void encode(const json& item, const SpectralChunkInfo& info, ByteView values, Scratch& scratch,
            Outcome& outcome) {
  const SpectralParameters parameters = parameters_of(item);
  SpectralChoice choice;
  choice.is_inline = !item.value("in_preamble", false);
  choice.lambda = item.value("lambda", 0.0f);
  if (item.contains("max_abs_error")) {
    choice.max_abs_error = item.at("max_abs_error").get<double>();
  }
  outcome.decoded.resize(values.size());
  EncodedChunk chunk;
  ErrorTotals errors;
  const auto done =
      encode_spectral(info, parameters, choice, values, scratch, outcome.decoded, chunk, errors);
  if (!done) {
    throw std::runtime_error(done.error().to_string());
  }
  outcome.payload = chunk.payload;
  if (!choice.is_inline) {
    append_spectral_parameters(parameters, outcome.preamble);
  }
}

Outcome play(const json& item, ByteView data, Scratch& scratch) {
  const auto shape = item.at("shape").get<std::vector<std::uint64_t>>();
  SpectralChunkInfo info;
  info.dtype = dtype_from_name(item.at("dtype").get<std::string>()).value();
  info.entropy = entropy_choice_from_name(item.value("entropy", "zstd")).value();
  info.shape = shape;
  info.first_elem = item.at("first").get<std::uint64_t>();
  info.n_elems = item.at("n").get<std::uint64_t>();
  Outcome outcome;
  if (item.contains("values")) {
    encode(item, info, part(data, item.at("values")), scratch, outcome);
  } else {
    outcome.payload = copy_of(part(data, item.at("payload")));
    if (item.contains("preamble")) {
      outcome.preamble = copy_of(part(data, item.at("preamble")));
    }
  }
  const Bytes expected = outcome.decoded;
  std::optional<SpectralParameters> parameters;
  if (item.contains("preamble") || !outcome.preamble.empty()) {
    auto parsed = parse_spectral_parameters(shape, outcome.preamble);
    if (!parsed) {
      outcome.error = error_code_name(parsed.error().code);
      return outcome;
    }
    parameters = std::move(parsed).value();
    info.parameters = &*parameters;
  }
  if (const auto done = decode(info, scratch, outcome); !done) {
    outcome.error = error_code_name(done.error().code);
  }
  if (item.contains("values") && (!outcome.error.empty() || outcome.decoded != expected)) {
    throw std::runtime_error("the encoder says other values than the decoder");
  }
  return outcome;
}

}  // namespace

int main(int argc, char** argv) {
  Scratch scratch;
  return play_cases(argc, argv, "write_spectral",
                    [&](const json& item, ByteView data) { return play(item, data, scratch); });
}
