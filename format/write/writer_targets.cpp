// Tensors whose steps depend on the results of encoding them.
#include <algorithm>

#include "encode/record/sizes.hpp"
#include "format/container/container.hpp"
#include "format/write/trial_layout.hpp"
#include "format/write/writer_impl.hpp"

namespace cfck {

using encode::EncodePlan;
using encode::RateControl;
using encode::RecordSize;
using encode::StepDecision;

namespace {

Error refusal(const char* message) { return invalid_argument(message); }

// Returns the sizes of tensors that have no step but are included in the target.
Result<std::vector<RecordSize>> sizes_of(std::span<const EncodePlan> plans, unsigned threads,
                                         const RateControl::Listener& listener) {
  std::uint64_t total_bytes = 0;
  for (const EncodePlan& plan : plans) {
    total_bytes += plan.geometry.n_elems * bits_per_element(plan.dtype) / 8;
  }
  return encode::record_sizes(plans, format::kFrameCosts, threads,
                              [&](std::uint64_t done_bytes, std::string_view name) {
                                return listener({0, done_bytes, total_bytes, name});
                              });
}

}  // namespace

void Writer::Impl::apply(std::uint32_t number, EncodePlan& plan, const StepDecision& decision) {
  plan.quality = decision.quality;
  if (decision.request) {
    plan.choice.request = decision.request;
    plan.has_step = true;
    decided.push_back({number, decision.stored_bytes, decision.rmse});
    return;
  }
  // A tensor that is lossless for other reasons is not one that the target reaches.
  const Target& target = plan.choice.target;
  if (target.kind != TargetKind::kNone && target.whole_file &&
      decision.reason == LosslessReason::kNotSmaller) {
    lossless_in_target.insert(number);
  }
  plan.choice = encode::without_loss(plan.choice.codec);
  encoder.kept_lossless().emplace(number, decision.reason);
}

Result<void> Writer::Impl::check_decided() {
  for (const Decided& trial : decided) {
    const format::StoredRecord& stored = layout.index().records[trial.record];
    const std::optional<RecordError>& lost = stored.record.error;
    if (!lost || lost->rmse != trial.rmse || own_bytes(stored) != trial.stored_bytes) {
      return invalid_argument(
                 "the tensor changed after its step was found; its values must stay "
                 "unchanged until the file is finished")
          .in_record(stored.record.name);
    }
  }
  return {};
}

Result<void> Writer::Impl::report(const StepSearch& search) {
  if (!search_progress) {
    return encoder.progress().check_cancelled(search.name);
  }
  return search_progress(search) ? Result<void>() : cancelled();
}

Result<void> Writer::Impl::decide_alone(std::uint32_t number, EncodePlan& plan) {
  // Starting threads takes longer than a chunk.
  const unsigned threads = plan.geometry.n_chunks == 1 ? 1 : options.threads;
  RateControl control(format::kFrameCosts, threads,
                      [&](const StepSearch& search) { return report(search); });
  CFCK_TRY_ASSIGN(const std::vector<StepDecision> decisions,
                  control.decide(plan.choice.target, {&plan, 1}));
  apply(number, plan, decisions.front());
  return {};
}

Result<std::uint64_t> Writer::Impl::bytes_of_files(
    std::span<Impl* const> writers, std::span<const std::vector<RecordSize>> rest_sizes,
    std::span<const RecordSize> sizes) {
  std::uint64_t n_bytes = 0;
  auto waiting = sizes.begin();
  for (std::size_t i = 0; i < writers.size(); ++i) {
    std::vector<RecordSize> all;
    auto of_rest = rest_sizes[i].begin();
    for (const Deferred& record : writers[i]->deferred) {
      all.push_back(record.waits_for_step ? *waiting++ : *of_rest++);
    }
    CFCK_TRY_ASSIGN(const std::uint64_t of_file, writers[i]->file_bytes(all));
    n_bytes += of_file;
  }
  return n_bytes;
}

Result<void> Writer::Impl::decide_together(std::span<Impl* const> writers) {
  Impl& first = *writers.front();
  const auto some = std::find_if(writers.begin(), writers.end(),
                                 [](const Impl* writer) { return !writer->deferred.empty(); });
  const auto listener = [&](const StepSearch& search) {
    return some == writers.end() ? Result<void>() : (*some)->report(search);
  };
  std::vector<EncodePlan> plans;
  std::vector<std::vector<RecordSize>> rest_sizes(writers.size());
  for (std::size_t i = 0; i < writers.size(); ++i) {
    std::vector<EncodePlan> rest;
    for (const Deferred& record : writers[i]->deferred) {
      (record.waits_for_step ? plans : rest).push_back(record.plan);
    }
    if (first.options.size) {
      CFCK_TRY_ASSIGN(rest_sizes[i], sizes_of(rest, first.options.threads, listener));
    }
  }
  const RateControl::FileBytes all_bytes = [&](std::span<const RecordSize> sizes) {
    return bytes_of_files(writers, rest_sizes, sizes);
  };
  RateControl control(format::kFrameCosts, first.options.threads, listener);
  CFCK_TRY_ASSIGN(const std::vector<StepDecision> decisions,
                  control.decide(first.rules.file_target(), plans, all_bytes));
  auto decision = decisions.begin();
  for (Impl* const writer : writers) {
    writer->file_step = control.step();
    for (Deferred& record : writer->deferred) {
      if (record.waits_for_step) {
        writer->apply(record.record, record.plan, *decision++);
      }
    }
  }
  return {};
}

Result<std::uint64_t> Writer::Impl::file_bytes(std::span<const RecordSize> sizes) const {
  format::DroppingSink sink;
  format::RecordLayout blank(sink, 0, layout.index());
  CFCK_TRY(blank.write(format::encode_head()));
  for (std::size_t i = 0; i < deferred.size(); ++i) {
    CFCK_TRY(format::lay_out(blank, deferred[i].record, deferred[i].plan, sizes[i]));
  }
  CFCK_TRY(blank.close_pack());
  format::MetadataFrame end = metadata;
  CFCK_TRY(write_attachments(blank, end.attachments));
  return format::file_bytes_of(blank, end);
}

Result<void> Writer::Impl::decide_steps(std::span<Impl* const> writers) {
  for (Impl* const writer : writers) {
    for (Deferred& record : writer->deferred) {
      if (record.plan.choice.needs_step() && !record.waits_for_step) {
        CFCK_TRY(writer->decide_alone(record.record, record.plan));
      }
    }
  }
  CFCK_TRY(decide_together(writers));
  for (Impl* const writer : writers) {
    writer->steps_decided = true;
  }
  return {};
}

Result<void> Writer::Impl::encode_deferred() {
  if (rules.has_file_target() && !steps_decided) {
    Impl* const self = this;
    CFCK_TRY(decide_steps({&self, 1}));
  }
  std::vector<Deferred> records = std::move(deferred);
  deferred.clear();
  for (Deferred& record : records) {
    CFCK_TRY(encoder.encode(record.record, std::move(record.plan)));
  }
  return {};
}

Result<void> WriterAccess::decide_steps(std::span<Writer* const> writers) {
  std::vector<Writer::Impl*> impls;
  for (const Writer* const writer : writers) {
    Writer::Impl* const impl = writer == nullptr ? nullptr : writer->impl_.get();
    if (impl == nullptr) {
      return refusal("the writer was moved from");
    }
    if (std::find(impls.begin(), impls.end(), impl) != impls.end()) {
      return refusal("the same writer was passed twice; pass each once");
    }
    CFCK_TRY(impl->guarded([] { return Result<void>(); }));
    impls.push_back(impl);
    const encode::EncodeRules& rules = impl->rules;
    const encode::EncodeRules& first = impls.front()->rules;
    if (!rules.has_same_target(first)) {
      return refusal("files that are finished together need the same target for all tensors");
    }
  }
  if (impls.empty() || !impls.front()->rules.has_file_target()) {
    return {};
  }
  Result<void> decided = run_guarded([&] { return Writer::Impl::decide_steps(impls); });
  for (Writer::Impl* const impl : impls) {
    if (!decided) {
      impl->error = copy_of(decided.error());
    }
  }
  return decided;
}

Result<void> WriterAccess::check_size(std::span<Writer* const> writers,
                                      std::span<const WriteSummary> summaries) {
  std::uint64_t n_bytes = 0;
  for (const WriteSummary& summary : summaries) {
    n_bytes += summary.file_bytes;
  }
  const bool is_kept = writers.empty() || !writers.front()->impl_->options.size ||
                       n_bytes <= *writers.front()->impl_->options.size;
  return is_kept ? Result<void>()
                 : refusal(
                       "size was exceeded: tensors changed after their steps "
                       "were found; their values must stay unchanged until the file is "
                       "finished");
}

Result<std::vector<WriteSummary>> finish_together(std::span<Writer* const> writers) {
  return run_guarded([&]() -> Result<std::vector<WriteSummary>> {
    CFCK_TRY(WriterAccess::decide_steps(writers));
    std::vector<WriteSummary> summaries;
    for (Writer* const writer : writers) {
      CFCK_TRY(WriterAccess::finish_data(*writer));
      CFCK_TRY_ASSIGN(WriteSummary summary, WriterAccess::finish_index(*writer));
      summaries.push_back(std::move(summary));
    }
    CFCK_TRY(WriterAccess::check_size(writers, summaries));
    return summaries;
  });
}

}  // namespace cfck
