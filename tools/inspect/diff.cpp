#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "cfck/reader.hpp"
#include "model/error_path.hpp"
#include "tools/inspect/inspect.hpp"
#include "tools/inspect/model_pairs.hpp"
#include "tools/inspect/name_prefixes.hpp"
#include "tools/inspect/tensor_errors.hpp"
#include "tools/inspect/tensor_set.hpp"
#include "tools/output/interrupt.hpp"
#include "tools/output/left_out.hpp"
#include "tools/output/progress_bar.hpp"

namespace cfck::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kPasses = 2;  // over a tensor that changed

// The tensors of one name on either side.
struct Pair {
  const StoredTensor* a = nullptr;
  const StoredTensor* b = nullptr;
  std::optional<TensorErrors> errors;  // of b against a

  bool same_type() const { return a->dtype == b->dtype && a->shape == b->shape; }
};

struct MetadataChange {
  std::string key;
  std::optional<std::string> a;
  std::optional<std::string> b;
};

struct Differences {
  std::vector<const StoredTensor*> added;
  std::vector<const StoredTensor*> removed;
  std::vector<Pair> changed;
  std::uint64_t n_unchanged = 0;
  std::vector<MetadataChange> metadata;

  bool any() const {
    return !added.empty() || !removed.empty() || !changed.empty() || !metadata.empty();
  }
};

std::vector<MetadataChange> compare_metadata(const Metadata& a, const Metadata& b) {
  std::vector<MetadataChange> changes;
  for (const auto& [key, value] : a) {
    const auto found = b.find(key);
    if (found == b.end()) {
      changes.push_back({key, value, {}});
    } else if (found->second != value) {
      changes.push_back({key, value, found->second});
    }
  }
  for (const auto& [key, value] : b) {
    if (!a.contains(key)) changes.push_back({key, {}, value});
  }
  return changes;
}

// Digests decide what is equal; only tensors that differ are decoded.
Result<void> compare_pair(const TensorSet& a, const TensorSet& b, Pair pair, bool fast,
                          Differences& differences) {
  if (!pair.same_type()) {
    differences.changed.push_back(std::move(pair));
    return {};
  }
  CFCK_TRY_ASSIGN(const Digest digest_a, a.digest(*pair.a));
  CFCK_TRY_ASSIGN(const Digest digest_b, b.digest(*pair.b));
  if (digest_a == digest_b) {
    differences.n_unchanged += 1;
    return {};
  }
  if (!fast) {
    CFCK_TRY_ASSIGN(pair.errors, TensorErrors::measure(b, *pair.b, a, *pair.a));
  }
  differences.changed.push_back(std::move(pair));
  return {};
}

// Digests of an index say what the bytes should be: whether they are that, hashes tell, and whether
// the base that they are decoded with is there.
Result<void> check_hashes(const TensorSet& set, const Console& console) {
  for (const ArchiveFile& file : set.files()) {
    if (file.reader == nullptr) continue;
    ProgressBar bar(console.shows_progress(), file.n_bytes);
    bar.start("checking " + file.path.substr(file.path.rfind('/') + 1));
    const auto progress = [&](std::uint64_t done_bytes, std::string_view) {
      bar.update(done_bytes, 0);
      return interrupt_signal() == 0;
    };
    CFCK_TRY_ASSIGN(VerifyReport report, file.reader->verify(VerifyLevel::kHashes, progress));
    if (!report.problems.empty()) {
      return model::with_path(std::move(report.problems.front()), file.path);
    }
    if (auto base = file.reader->check_base(); !base) {
      return model::with_path(std::move(base).error(), file.path);
    }
  }
  return {};
}

// `show` is called for each tensor of `a` that is done.
using ShowDone = std::function<void(const StoredTensor* done)>;

Result<Differences> compare(const TensorSet& a, const TensorSet& b, bool fast,
                            const ShowDone& show) {
  Differences differences;
  differences.metadata = compare_metadata(a.metadata(), b.metadata());
  for (const StoredTensor& tensor : a.tensors()) {
    CFCK_TRY(check_interrupt());
    if (const StoredTensor* other = b.find(tensor.name)) {
      CFCK_TRY(compare_pair(a, b, {&tensor, other, {}}, fast, differences));
    } else {
      differences.removed.push_back(&tensor);
    }
    show(&tensor);
  }
  for (const StoredTensor& tensor : b.tensors()) {
    if (a.find(tensor.name) == nullptr) differences.added.push_back(&tensor);
  }
  return differences;
}

std::optional<NamePrefixes> prefixes_of(const Differences& differences) {
  const auto names_of = [](const std::vector<const StoredTensor*>& tensors) {
    std::vector<std::string_view> names;
    for (const StoredTensor* tensor : tensors) names.emplace_back(tensor->name);
    return names;
  };
  return find_prefixes(names_of(differences.removed), names_of(differences.added));
}

std::string change_text(const Pair& pair) {
  if (!pair.same_type()) {
    return fmt::format("{} -> {}", type_text(*pair.a), type_text(*pair.b));
  }
  std::string text = type_text(*pair.a) + "  values";
  if (!pair.errors) return text;
  text += fmt::format("  max abs error {:.6g}  RMSE {:.6g}", pair.errors->max_abs(),
                      pair.errors->rmse());
  if (const auto count = pair.errors->n_special_mismatches(); count > 0) {
    text += fmt::format("  NaN or Inf differ {}", count);
  }
  return text;
}

void print_text(Console& console, const Differences& differences) {
  const auto line = [&](char sign, const std::string& name, const std::string& what) {
    console.print(fmt::format("{} {}  {}\n", sign, name.empty() ? "\"\"" : escaped(name), what));
  };
  for (const StoredTensor* tensor : differences.removed)
    line('-', tensor->name, type_text(*tensor));
  for (const StoredTensor* tensor : differences.added) line('+', tensor->name, type_text(*tensor));
  for (const Pair& pair : differences.changed) line('~', pair.a->name, change_text(pair));
  for (const MetadataChange& change : differences.metadata) {
    const std::string key = "metadata " + escaped(change.key);
    if (!change.b) {
      line('-', key, "= " + escaped(*change.a));
    } else if (!change.a) {
      line('+', key, "= " + escaped(*change.b));
    } else {
      line('~', key, fmt::format("= {} -> {}", escaped(*change.a), escaped(*change.b)));
    }
  }
  if (const auto prefixes = prefixes_of(differences)) {
    console.say(prefix_text(*prefixes, differences.removed.size(), differences.added.size()) +
                "\n");
  }
  console.say(
      fmt::format("{} {} added, {} removed, {} changed, {} unchanged\n", differences.added.size(),
                  differences.added.size() == 1 ? "tensor" : "tensors", differences.removed.size(),
                  differences.changed.size(), differences.n_unchanged));
}

Json type_json(const StoredTensor& tensor) {
  return {{"name", tensor.name}, {"dtype", dtype_name(tensor.dtype)}, {"shape", tensor.shape}};
}

Json change_json(const Pair& pair) {
  Json json = type_json(*pair.a);
  Json what = Json::array();
  if (pair.a->dtype != pair.b->dtype) what.push_back("dtype");
  if (pair.a->shape != pair.b->shape) what.push_back("shape");
  if (what.empty()) what.push_back("values");
  json["what"] = std::move(what);
  if (!pair.same_type()) {
    json["new_dtype"] = dtype_name(pair.b->dtype);
    json["new_shape"] = pair.b->shape;
  }
  if (pair.errors) {
    json["max_abs_error"] = number_json(pair.errors->max_abs());
    json["rmse"] = number_json(pair.errors->rmse());
    json["n_special_mismatches"] = pair.errors->n_special_mismatches();
  }
  return json;
}

void print_files(Console& console, const std::vector<std::string>& differing) {
  for (const std::string& name : differing) {
    console.print(fmt::format("~ file {}  not compared by tensors, differs\n", escaped(name)));
  }
}

void print_json(Console& console, const DiffOptions& options, const Differences& differences,
                const std::vector<std::string>& differing) {
  Json json{{"schema_version", 1},
            {"a", json_text(options.a)},
            {"b", json_text(options.b)},
            {"equal", !differences.any() && differing.empty()},
            {"n_unchanged", differences.n_unchanged},
            {"added", Json::array()},
            {"removed", Json::array()},
            {"changed", Json::array()},
            {"metadata", Json::array()},
            {"files", Json::array()}};
  for (const std::string& name : differing) json["files"].push_back(json_text(name));
  for (const StoredTensor* tensor : differences.added) json["added"].push_back(type_json(*tensor));
  for (const StoredTensor* tensor : differences.removed) {
    json["removed"].push_back(type_json(*tensor));
  }
  for (const Pair& pair : differences.changed) json["changed"].push_back(change_json(pair));
  for (const MetadataChange& change : differences.metadata) {
    Json entry{{"key", change.key}, {"a", nullptr}, {"b", nullptr}};
    if (change.a) entry["a"] = *change.a;
    if (change.b) entry["b"] = *change.b;
    json["metadata"].push_back(std::move(entry));
  }
  if (const auto prefixes = prefixes_of(differences)) {
    json["prefixes"] = {{"a", json_text(prefixes->a)},
                        {"b", json_text(prefixes->b)},
                        {"n_names", prefixes->n_names}};
  }
  console.print(json.dump(-1, ' ', true) + "\n");
}

// Compares two models; `differing` are files beside them that differ.
Result<int> diff(const DiffOptions& options, const std::vector<std::string>& differing,
                 Console& console) {
  CFCK_TRY_ASSIGN(TensorSet a, TensorSet::open(options.a, options.reading));
  CFCK_TRY_ASSIGN(const TensorSet b, TensorSet::open(options.b, options.reading));
  std::uint64_t total_bytes = 0;
  for (const StoredTensor& tensor : a.tensors()) total_bytes += tensor.n_bytes;
  std::optional<ProgressBar> bar;
  bar.emplace(console.shows_progress(), total_bytes);
  bar->start("comparing");
  std::uint64_t done_bytes = 0;  // of tensors that are compared
  std::uint64_t read_bytes = 0;  // of the next one, which is read for its digest and its errors
  const auto show = [&](const StoredTensor* done) {
    if (done != nullptr) {
      done_bytes += done->n_bytes;
      read_bytes = 0;
    }
    bar->update(std::min(total_bytes, done_bytes + read_bytes / kPasses), 0);
  };
  a.listen([&](std::uint64_t n_bytes) {
    read_bytes += n_bytes;
    show(nullptr);
  });
  CFCK_TRY_ASSIGN(const Differences differences, compare(a, b, options.fast, show));
  a.listen({});
  bar.reset();
  if (!options.fast && differences.n_unchanged > 0) {
    CFCK_TRY(check_hashes(a, console));
    CFCK_TRY(check_hashes(b, console));
  }
  if (console.json()) {
    print_json(console, options, differences, differing);
  } else {
    print_text(console, differences);
    print_files(console, differing);
  }
  return differences.any() || !differing.empty() ? kExitDifference : kExitOk;
}

// Reports a model that only one of two folders has.
int report_single(Console& console, const ModelPair& pair) {
  if (console.json()) {
    Json json{{"schema_version", 1}, {"a", nullptr}, {"b", nullptr}, {"equal", false}};
    if (pair.a) json["a"] = json_text(*pair.a);
    if (pair.b) json["b"] = json_text(*pair.b);
    console.print(json.dump(-1, ' ', true) + "\n");
  } else {
    console.print(fmt::format("{} {}\n", pair.a ? '-' : '+', escaped(pair.a ? *pair.a : *pair.b)));
  }
  return kExitDifference;
}

// Compares the models of two folders, and goes on after errors.
int diff_pairs(const DiffOptions& options, const std::vector<ModelPair>& pairs,
               const std::vector<std::string>& differing, Console& console) {
  int code = kExitOk;
  std::size_t n_equal = 0;
  for (const ModelPair& pair : pairs) {
    if (!pair.a || !pair.b) {
      code = worse_exit_code(code, report_single(console, pair));
      continue;
    }
    if (!console.json()) {
      console.say(fmt::format("{} and {}:\n", escaped(*pair.a), escaped(*pair.b)));
    }
    DiffOptions of_pair = options;
    of_pair.a = *pair.a;
    of_pair.b = *pair.b;
    const auto result = diff(of_pair, {}, console);
    if (const int number = interrupt_signal(); number != 0) return kExitSignal + number;
    if (result && *result == kExitOk) ++n_equal;
    code = worse_exit_code(code, result ? *result : console.fail(result.error()));
  }
  if (!differing.empty()) code = worse_exit_code(code, kExitDifference);
  if (console.json()) {
    Json json{{"schema_version", 1},
              {"n_models", pairs.size()},
              {"n_equal", n_equal},
              {"equal", code == kExitOk},
              {"files", Json::array()}};
    for (const std::string& name : differing) json["files"].push_back(json_text(name));
    console.print(json.dump(-1, ' ', true) + "\n");
  } else {
    print_files(console, differing);
    console.say(fmt::format("{} models compared, {} equal\n", pairs.size(), n_equal));
  }
  return code;
}

int diff_all(const DiffOptions& options, const std::vector<ModelPair>& pairs,
             const std::vector<std::string>& differing, Console& console) {
  if (pairs.size() > 1) return diff_pairs(options, pairs, differing, console);
  const auto code = diff(options, differing, console);
  return code ? *code : console.fail(code.error());
}

}  // namespace

int run_diff(const DiffOptions& options, Console& console) {
  catch_interrupts();
  const auto pairs = model_pairs(options.a, options.b);
  if (!pairs) return console.fail(pairs.error());
  for (const std::string& path : {options.a, options.b}) {
    warn_of_files_left_out(console, path, "not compared");
  }
  const auto differing = differing_files_left_out(options.a, options.b);
  if (!differing) return console.fail(differing.error());
  const int result = diff_all(options, *pairs, *differing, console);
  if (const int number = interrupt_signal(); number != 0) return kExitSignal + number;
  return result;
}

}  // namespace cfck::tools
