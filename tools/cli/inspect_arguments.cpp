#include "tools/cli/arguments.hpp"

namespace cfck::tools {

void set_up_stats(CLI::App& app, Choices& choices) {
  StatsOptions& options = choices.stats;
  app.description(
      "Decode tensors and describe their values, one line for each: zeros, NaN, Inf, range, "
      "median, mean, standard deviation (of the population). With --ref also show the errors, "
      "recomputed from both files: the worst error, RMSE, PSNR relative to the range of the "
      "reference, cosine, and for lossy tensors whether the bound was met. Exit code 1 if it was "
      "not, or if only one side has a tensor.");
  app.add_option("FILE", options.path, kAnyFile)->required()->option_text(" ");
  app.add_option("NAME", options.patterns, "Names or shell patterns; default: all tensors")
      ->option_text("...");
  CLI::Option* reference =
      app.add_option("--ref", options.reference,
                     "The reference to compare with: a file or folder as above")
          ->option_text("FILE");
  app.add_flag("--common", options.common, "With --ref: skip tensors that only one side has")
      ->needs(reference)
      ->option_text(" ");
  CLI::Option* histograms = app.add_flag(
      "--histograms", options.histograms,
      "All figures of each tensor: also exact quantiles, relative errors, and a histogram within "
      "four deviations");
  app.add_flag("--ascii", options.ascii, "Draw with #; the default where the locale is not UTF-8")
      ->needs(histograms)
      ->option_text(" ");
  add_reading(app, options.reading);
  add_common(app, choices);
  set_footer(app,
             "  cfck stats model.cfck '*.weight'\n"
             "  cfck stats --histograms model.cfck head.weight\n"
             "  cfck stats --quiet small.cfck --ref model.safetensors\n");
  choices.input_paths.push_back(&options.path);
  choices.input_paths.push_back(&options.reference);
  app.callback([&choices] {
    choices.run = [&choices](Console& console) { return run_stats(choices.stats, console); };
  });
}

void set_up_bands(CLI::App& app, Choices& choices) {
  BandsOptions& options = choices.bands;
  app.description(
      "Show how tensors of codec spectral are coded: transform, block, trellis, order, steps; and "
      "for every band its step, its share of the stored bits, and its error. With --ref, errors "
      "are measured against the original; otherwise they are estimated from the steps. Decodes "
      "the tensors.");
  app.add_option("FILE", options.path, "A .cfck file, or a folder of them; - is standard input")
      ->required()
      ->option_text(" ");
  app.add_option("NAME", options.patterns, "Names or shell patterns; default: all tensors")
      ->option_text("...");
  app.add_option("--ref", options.reference,
                 "The original: a file or folder of any of these formats")
      ->option_text("FILE");
  add_reading(app, options.reading);
  add_common(app, choices);
  set_footer(app,
             "  cfck bands model.cfck 'layer1.*'\n"
             "  cfck bands model.cfck --ref model.safetensors\n"
             "  cfck bands --json model.cfck | jq '.records[].codings[].bands[].bits'\n");
  choices.input_paths.push_back(&options.path);
  choices.input_paths.push_back(&options.reference);
  app.callback([&choices] {
    choices.run = [&choices](Console& console) { return run_bands(choices.bands, console); };
  });
}

void set_up_spectrum(CLI::App& app, Choices& choices) {
  SpectrumOptions& options = choices.spectrum;
  app.description(
      "Show what tensors are made of, to choose codecs: the energy by frequency after the block "
      "transform, singular values and effective rank, the scales of rows and columns, and the "
      "bits per weight that each codec takes when it is tried. One line for each tensor, or all "
      "figures of up to four. Large tensors are measured on a sample of their rows.");
  app.add_option("FILE", options.path, kAnyFile)->required()->option_text(" ");
  app.add_option("NAME", options.patterns, "Names or shell patterns; default: all tensors")
      ->option_text("...");
  app.add_option("--svg", options.picture, "Draw the figures in this file, too")
      ->option_text("PICTURE");
  app.add_flag("-f,--force", options.force, "Replace PICTURE if it exists");
  app.add_option("--max-side", options.max_side,
                 "Singular values of matrices up to this side; default: 1024")
      ->option_text("N");
  app.add_flag("--fast", options.fast, "Do not try the codecs");
  add_reading(app, options.reading);
  add_common(app, choices);
  set_footer(app,
             "  cfck spectrum model.safetensors\n"
             "  cfck spectrum model.pt layer1.weight --svg layer1.svg\n"
             "  cfck spectrum --json model.cfck | jq '.records[].singular_values'\n");
  choices.input_paths.push_back(&options.path);
  app.callback([&choices] {
    choices.run = [&choices](Console& console) { return run_spectrum(choices.spectrum, console); };
  });
}

void set_up_diff(CLI::App& app, Choices& choices) {
  app.description(
      "Compare tensors by name, and metadata. For changed tensors, show the worst error and the "
      "root mean square error. Exit code 0 if all are equal, 1 if not.");
  app.add_option("A", choices.diff.a, kAnyFile)->required()->option_text(" ");
  app.add_option("B", choices.diff.b, "The file or folder to compare with A")
      ->required()
      ->option_text(" ");
  app.add_flag(
      "--fast,--digest-only", choices.diff.fast,
      "Compare only digests; those of .cfck files are in the index, so their bytes are not read");
  add_reading(app, choices.diff.reading);
  add_common(app, choices);
  set_footer(app,
             "  cfck diff old.cfck new.cfck\n"
             "  cfck diff --fast model.safetensors model.cfck && echo the same\n");
  choices.input_paths.push_back(&choices.diff.a);
  choices.input_paths.push_back(&choices.diff.b);
  app.callback([&choices] {
    choices.run = [&choices](Console& console) { return run_diff(choices.diff, console); };
  });
}

void set_up_extract(CLI::App& app, Choices& choices) {
  ExtractOptions& options = choices.extract;
  app.description(
      "Write one tensor as a .npy file. numpy has neither BF16 nor F8: their bits are stored as "
      "unsigned integers of the same width.");
  app.add_option("FILE", options.path, kAnyFile)->required()->option_text(" ");
  app.add_option("NAME", options.name, "The name of the tensor")->required()->option_text(" ");
  app.add_option("-o,--output", options.output, "The output file; - is standard output")
      ->option_text("FILE");
  app.add_flag("-f,--force", options.force, "Replace the output file if it exists");
  add_reading(app, options.reading);
  add_common(app, choices);
  set_footer(app,
             "  cfck extract model.cfck head.weight -o head.npy\n"
             "  cfck extract model.cfck head.weight -o - | sha256sum\n");
  choices.input_paths.push_back(&options.path);
  app.callback([&choices] {
    choices.run = [&choices](Console& console) { return run_extract(choices.extract, console); };
  });
}

}  // namespace cfck::tools
