// The arguments of commands for whole files.
#include "tools/cli/arguments.hpp"
#include "tools/inspect/inspect.hpp"

namespace cfck::tools {

void set_up_show(CLI::App& app, Choices& choices) {
  app.description(
      "List the contents of files: totals, then each tensor; for lossy tensors the bound or "
      "target "
      "and the worst error measured. Reads only the index. "
      "With `verify`, `digest`, `stats`, `bands`, `spectrum`, `diff` or `extract` as the first "
      "word, runs that command (see cfck --help).");
  app.add_option("FILE", choices.show.paths, kAnyFiles)->required()->option_text(" ");
  add_choice<SortKey>(
      app, "--sort", choices.show.sort,
      {{"file", SortKey::kFile},
       {"name", SortKey::kName},
       {"dtype", SortKey::kDType},
       {"codec", SortKey::kCodec},
       {"elems", SortKey::kElems},
       {"raw", SortKey::kRaw},
       {"ratio", SortKey::kRatio},
       {"stored", SortKey::kStored},
       {"bits", SortKey::kBits}},
      "file (default), name, dtype, codec; or, largest first: elems, raw, stored, ratio, bits",
      "KEY");
  app.add_option("--filter", choices.show.filters,
                 "Only tensors whose names match the shell pattern; may be repeated")
      ->option_text("GLOB")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--strict", choices.show.strict, "Shards that no index names are an error");
  app.add_flag("--changes", choices.show.changes,
               "Of a file that is stored against another: count the values that changed, which "
               "decodes both")
      ->option_text(" ");
  add_reading(app, choices.show.reading);
  add_common(app, choices);
  set_footer(app,
             "  cfck inspect model.cfck\n"
             "  cfck inspect --sort stored --filter '*attn*' model.cfck\n"
             "  cfck verify --deep model.cfck\n"
             "  cfck inspect --json model.cfck | jq '.records[].bits_per_weight'\n");
  choices.input_lists.push_back(&choices.show.paths);
  app.callback([&choices] {
    choices.run = [&choices](Console& console) { return run_show(choices.show, console); };
  });
}

void set_up_verify(CLI::App& app, Choices& choices) {
  app.description("Check every frame and every hash of .cfck files.");
  app.add_option("FILE", choices.verify.paths,
                 ".cfck files, or folders of them; - is standard input")
      ->required()
      ->option_text(" ");
  app.add_flag("--deep", choices.verify.deep,
               "Also decode every tensor and compare it with its digest");
  app.add_flag("--strict", choices.verify.strict, "Shards that no index names are an error");
  add_threads(app, choices.verify.threads);
  add_reading(app, choices.verify.reading);
  add_common(app, choices);
  set_footer(app, "  cfck verify --deep model.cfck\n");
  choices.input_lists.push_back(&choices.verify.paths);
  app.callback([&choices] {
    choices.run = [&choices](Console& console) { return run_verify(choices.verify, console); };
  });
}

void set_up_digest(CLI::App& app, Choices& choices) {
  app.description(
      "Print the content digest, which is equal for files with equal tensors, however they are "
      "stored: compressed or not, sharded or not.");
  app.add_option("FILE", choices.digest.paths, kAnyFiles)->required()->option_text(" ");
  app.add_flag("-v,--per-tensor", choices.digest.per_tensor,
               "Also print the digest of each tensor");
  add_reading(app, choices.digest.reading);
  add_common(app, choices);
  set_footer(app, "  cfck digest model.safetensors model.cfck\n");
  choices.input_lists.push_back(&choices.digest.paths);
  app.callback([&choices] {
    choices.run = [&choices](Console& console) { return run_digest(choices.digest, console); };
  });
}

void set_up_compact(CLI::App& app, Choices& choices) {
  app.description("Rewrite .cfck files without the data that updates have replaced.");
  app.add_option("FILE", choices.compact.paths, ".cfck files, or folders of them")
      ->required()
      ->option_text(" ");
  add_threads(app, choices.compact.threads);
  add_reading(app, choices.compact.reading);
  add_common(app, choices);
  set_footer(app, "  cfck compact model.cfck\n");
  app.callback([&choices] {
    choices.run = [&choices](Console& console) { return run_compact(choices.compact, console); };
  });
}

void set_up_repair(CLI::App& app, Choices& choices) {
  app.description(
      "Copy every tensor of a damaged .cfck file whose hashes match to a new file. Exit code 1 if "
      "any tensor is lost.");
  app.add_option("FILE", choices.repair.damaged,
                 "The damaged file, which is not changed; - is standard input")
      ->required()
      ->option_text(" ");
  app.add_option("-o,--output", choices.repair.output, "The new file, which must not exist")
      ->required()
      ->option_text("NEW");
  add_threads(app, choices.repair.threads);
  add_reading(app, choices.repair.reading);
  add_common(app, choices);
  set_footer(app, "  cfck repair torn.cfck -o whole.cfck\n");
  choices.input_paths.push_back(&choices.repair.damaged);
  app.callback([&choices] {
    choices.run = [&choices](Console& console) { return run_repair(choices.repair, console); };
  });
}

}  // namespace cfck::tools
