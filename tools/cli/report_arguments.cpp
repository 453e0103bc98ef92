#include "tools/cli/arguments.hpp"
#include "tools/cli/help_formatter.hpp"

namespace cfck::tools {
namespace {

void add_page(CLI::App& app, ReportOptions& options) {
  set_group(app, "Page");
  app.add_option("-o,--output", options.output,
                 "The page, .html or .md; - is standard output; default: beside FILE, "
                 "model.cfck -> model.report.html")
      ->option_text("PAGE");
  CLI::Option* format = app.add_option_function<std::string>(
      "--format",
      [&options](const std::string& word) {
        if (word != "html" && word != "md") {
          throw CLI::ValidationError(
              "--format", fmt::format("'{}' is not one of html, md", detail::escaped(word)));
        }
        options.format = word == "html" ? PageFormat::kHtml : PageFormat::kMarkdown;
      },
      "What to write: html, or md (Markdown with tables, for a model card); default: by the name "
      "of PAGE");
  format->option_text("NAME");
  suggest_words(format, "html,md");
  app.add_option("--title", options.title, "The heading; default: the name of the file")
      ->option_text("TEXT");
  app.add_option("--figure", options.figures,
                 "A figure of quality to show, such as cosine=0.991; may be repeated")
      ->option_text("NAME=VALUE")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--figures", options.figures_file, "A JSON object with more of these")
      ->option_text("FILE");
  app.add_option("--pictures", options.max_pictures,
                 "How many tensors get pictures of their own, the largest first; default: 400")
      ->option_text("N");
  app.add_flag("-f,--force", options.force, "Replace PAGE if it exists");
}

}  // namespace

void set_up_report(CLI::App& app, Choices& choices) {
  ReportOptions& options = choices.report;
  app.description(
      "Write one page that shows what is in a file: sizes by layer, bits and errors by tensor, "
      "values before and after, bands, outliers. It names every tensor, and needs nothing but "
      "itself: no scripts, fonts or network. Decodes the tensors. "
      "With --ref errors are measured against the original; otherwise they are those in the "
      "index. Exit code 1 if a bound is exceeded, or if only one side has a tensor.");
  app.add_option("FILE", options.path,
                 "A file of tensors, .cfck, .safetensors, .pt, .h5, .npz or .npy, or a folder of "
                 "the first two")
      ->required()
      ->option_text(" ");
  CLI::Option* reference =
      app.add_option("--ref", options.reference, "The original: a file or folder as above")
          ->option_text("FILE");
  app.add_flag("--common", options.common, "With --ref: skip tensors that only one side has")
      ->needs(reference)
      ->option_text(" ");
  app.add_flag("--index", options.index_only,
               "Read only the index: no values, no bands, but at once")
      ->excludes(reference)
      ->option_text(" ");
  add_page(app, options);
  help_page(app).first_options = {"--ref",    "--index", "--output", "--format", "--title",
                                  "--figure", "--force", "--json",   "--quiet"};
  add_reading(app, options.reading);
  add_common(app, choices);
  set_footer(app,
             "  cfck report small.cfck --ref model.safetensors -o report.html\n"
             "  cfck report small.cfck --ref model.safetensors -o card.md --figure cosine=0.99\n"
             "  cfck report model.cfck --index -o - | less\n");
  app.callback([&choices] {
    choices.run = [&choices](Console& console) { return run_report(choices.report, console); };
  });
}

}  // namespace cfck::tools
