#include "tools/spectrum/spectrum.hpp"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cfck/io.hpp"
#include "tools/output/interrupt.hpp"
#include "tools/output/left_out.hpp"
#include "tools/output/machine_errors.hpp"
#include "tools/output/progress_bar.hpp"
#include "tools/spectrum/picture.hpp"
#include "tools/spectrum/text.hpp"

namespace cfck::tools {
namespace {

using Json = nlohmann::ordered_json;

// With more tensors there is one line for each.
constexpr std::size_t kMaxDetailed = 4;

struct Spectra {
  std::vector<TensorSpectrum> tensors;
  std::uint64_t n_skipped = 0;  // no floats, or without values; vectors that were not named
  std::uint64_t n_shared = 0;   // other names of tensors that are shown
};

Result<std::unique_ptr<AtomicFile>> create_picture(const SpectrumOptions& options,
                                                   const TensorSet& set) {
  if (options.picture.empty()) return std::unique_ptr<AtomicFile>();
  if (set.has_file(options.picture)) {
    return invalid_argument("the picture would replace the input file; choose another name");
  }
  AtomicFile::Options how;
  how.replace_existing = options.force;
  auto file = AtomicFile::create(options.picture, how);
  if (!file && file.error().code == ErrorCode::kExists) {
    Error error = std::move(file).error();
    error.message += " (--force)";
    return error;
  }
  return file;
}

// True for another name of a whole tensor that is among the selected ones as well.
bool is_second_name(const TensorSet& set, const StoredTensor& tensor) {
  if (tensor.sharing == Sharing::kNone) return false;
  const StoredTensor* const base = set.find(set.base_name(tensor));
  return base != nullptr && base != &tensor && base->shape == tensor.shape &&
         base->dtype == tensor.dtype;
}

Result<Spectra> describe_all(const TensorSet& set, const SpectrumOptions& options,
                             const std::vector<const StoredTensor*>& selected, ProgressBar& bar) {
  Spectra all;
  std::uint64_t done_bytes = 0;
  for (const StoredTensor* tensor : selected) {
    if (!has_spectrum(*tensor) || (options.patterns.empty() && tensor->shape.size() < 2)) {
      all.n_skipped += 1;
    } else if (options.patterns.empty() && is_second_name(set, *tensor)) {
      all.n_shared += 1;
    } else {
      auto spectrum = tensor_spectrum(set, *tensor, {options.max_side, !options.fast});
      CFCK_TRY(check_interrupt());
      if (spectrum) {
        all.tensors.push_back(std::move(*spectrum));
      } else {
        all.tensors.emplace_back().tensor = tensor;
        all.tensors.back().failure = std::move(spectrum).error();
      }
    }
    done_bytes += tensor->n_bytes;
    bar.update(done_bytes, 0);
  }
  return all;
}

void print_json(Console& console, const SpectrumOptions& options, const Spectra& all) {
  Json json{{"schema_version", 1}, {"file", json_text(options.path)}};
  if (!options.picture.empty()) json["picture"] = json_text(options.picture);
  json["n_skipped"] = all.n_skipped;
  json["n_shared"] = all.n_shared;
  json["records"] = Json::array();
  for (const TensorSpectrum& spectrum : all.tensors) {
    json["records"].push_back(spectrum_json(spectrum));
  }
  console.print(json.dump(-1, ' ', true) + "\n");
}

void print_text(Console& console, const Spectra& all) {
  if (all.tensors.size() > kMaxDetailed) {
    console.print(spectrum_table(all.tensors));
  } else {
    bool separate = false;
    for (const TensorSpectrum& spectrum : all.tensors) {
      if (spectrum.failure) continue;
      if (std::exchange(separate, true)) console.print("\n");
      console.print(spectrum_text(spectrum, console));
    }
  }
  if (all.n_skipped > 0) {
    console.print(
        fmt::format("{} {} left out: vectors, unless named, and what is no float or empty\n",
                    all.n_skipped, all.n_skipped == 1 ? "tensor is" : "tensors are"));
  }
  if (all.n_shared > 0) {
    console.print(fmt::format("{} more {} of the same tensors\n", all.n_shared,
                              all.n_shared == 1 ? "name" : "names"));
  }
}

Result<int> spectrum(const SpectrumOptions& options, Console& console) {
  CFCK_TRY_ASSIGN(const TensorSet set, TensorSet::open(options.path, options.reading));
  const auto selected = select_tensors(set, options.patterns);
  if (!selected) return with_path(selected.error(), options.path);
  auto picture = create_picture(options, set);
  if (!picture) return with_path(std::move(picture).error(), options.picture);
  std::uint64_t total_bytes = 0;
  for (const StoredTensor* tensor : *selected) total_bytes += tensor->n_bytes;
  std::optional<ProgressBar> bar;
  bar.emplace(console.shows_progress(), total_bytes);
  bar->start("measuring");
  CFCK_TRY_ASSIGN(const Spectra all, describe_all(set, options, *selected, *bar));
  bar.reset();
  if (*picture != nullptr) {
    for (const TensorSpectrum& tensor : all.tensors) {
      if (tensor.failure && is_of_machine(*tensor.failure)) return *tensor.failure;
    }
    const std::string text = spectrum_picture(all.tensors);
    CFCK_TRY((*picture)->write(std::as_bytes(std::span(text))));
    CFCK_TRY(check_interrupt());
    CFCK_TRY((*picture)->commit());
    if (all.tensors.size() > kMaxPictured) {
      console.warn(fmt::format("the picture shows the first {} of {} tensors; name those you want",
                               kMaxPictured, all.tensors.size()));
    }
  }
  if (console.json()) {
    print_json(console, options, all);
  } else {
    print_text(console, all);
  }
  int code = kExitOk;
  for (const TensorSpectrum& tensor : all.tensors) {
    if (!tensor.failure) continue;
    const int failed = console.complain(*tensor.failure, set.path_of(*tensor.tensor));
    if (code == kExitOk) code = failed;
  }
  return code;
}

}  // namespace

int run_spectrum(const SpectrumOptions& options, Console& console) {
  catch_interrupts();
  warn_of_other_models(console, options.path, "not measured");
  const auto code = spectrum(options, console);
  if (const int number = interrupt_signal(); number != 0) return kExitSignal + number;
  return code ? *code : console.fail(code.error());
}

}  // namespace cfck::tools
