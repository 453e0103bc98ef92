// write_direct CASES.json DATA.bin OUT.bin: chunks of the direct codec for
// test_direct_*.py, which writes both inputs. A case encodes values or decodes a
// payload; OUT.bin is described in case_files.hpp.
#include <optional>

#include "codec/direct/chunk/direct.hpp"
#include "tests/spec/writers/case_files.hpp"

namespace {

using nlohmann::json;
using namespace cfck;
using namespace cfck::codec;
using namespace cfck::test;

DirectParameters parameters_of(const json& item, DirectBounds& bounds,
                               std::vector<double>& row_bounds) {
  DirectParameters parameters;
  if (item.contains("row_bounds")) {
    row_bounds = item.at("row_bounds").get<std::vector<double>>();
    bounds.rows = row_bounds;
    for (const double bound : row_bounds) {
      parameters.row_steps.push_back(value(row_step_of(bound)));
    }
  } else {
    bounds.bound = item.at("bound").get<double>();
    parameters.step = item.value("step", value(step_of(bounds.bound)));
  }
  const auto read = [&](const char* name, std::vector<std::int16_t>& vector) {
    vector = item.value(name, std::vector<std::int16_t>());
  };
  read("coefficients", parameters.coefficients);
  read("bands", parameters.field.bands);
  read("rows", parameters.field.rows);
  read("columns", parameters.field.columns);
  return parameters;
}

Result<void> decode(const DirectChunkInfo& info, Scratch& scratch, Outcome& outcome) {
  outcome.decoded.resize(info.n_elems * bits_per_element(info.dtype) / 8);
  CFCK_TRY_ASSIGN(const std::uint32_t body_bytes, direct_body_bytes(info, outcome.payload));
  CFCK_TRY(decode_direct(info, outcome.payload, scratch, outcome.decoded));
  if (body_bytes > outcome.payload.size()) {
    throw std::runtime_error("a body longer than the payload was decoded");
  }
  return {};
}

void encode(const json& item, const DirectChunkInfo& info, ByteView data, Scratch& scratch,
            Outcome& outcome) {
  DirectBounds bounds;
  std::vector<double> row_bounds;
  const DirectParameters parameters = parameters_of(item, bounds, row_bounds);
  const ByteView values = part(data, item.at("values"));
  const bool in_preamble = item.value("in_preamble", false);
  DirectChunk chunk;
  outcome.decoded.resize(values.size());
  const auto place = in_preamble ? ParameterPlace::kPreamble : ParameterPlace::kInline;
  const auto done =
      encode_direct(info, parameters, place, bounds, values, scratch, outcome.decoded, chunk);
  if (!done) {
    throw std::runtime_error(done.error().to_string());
  }
  outcome.payload = chunk.encoded.payload;
  if (in_preamble) {
    append_parameters(parameters, outcome.preamble);
  }
}

Outcome play(const json& item, ByteView data, Scratch& scratch) {
  const auto shape = item.at("shape").get<std::vector<std::uint64_t>>();
  const auto dtype = dtype_from_name(item.at("dtype").get<std::string>());
  DirectChunkInfo info{dtype.value(),
                       entropy_choice_from_name(item.value("entropy", "zstd")).value(),
                       shape,
                       item.at("first").get<std::uint64_t>(),
                       item.at("n").get<std::uint64_t>(),
                       nullptr};
  Outcome outcome;
  if (item.contains("values")) {
    encode(item, info, data, scratch, outcome);
  } else {
    outcome.payload = copy_of(part(data, item.at("payload")));
    if (item.contains("preamble")) {
      outcome.preamble = copy_of(part(data, item.at("preamble")));
    }
  }
  const Bytes expected = outcome.decoded;
  std::optional<DirectParameters> parameters;
  if (item.contains("preamble") || !outcome.preamble.empty()) {
    auto parsed = parse_parameters(value(direct_geometry(shape)), outcome.preamble);
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
  return play_cases(argc, argv, "write_direct",
                    [&](const json& item, ByteView data) { return play(item, data, scratch); });
}
