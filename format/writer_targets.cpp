// Tensors whose steps depend on what encoding them gives.
#include <algorithm>

#include "format/container.hpp"
#include "format/file_end.hpp"
#include "format/record_size.hpp"
#include "format/writer_impl.hpp"

namespace cfck {

using format::EncodePlan;
using format::RateControl;
using format::RecordSize;
using format::SpectralDecision;

void Writer::Impl::apply(std::uint32_t number, EncodePlan& plan, const SpectralDecision& decision) {
  plan.quality = decision.quality;
  plan.spectral = decision.request;
  if (!decision.request) {
    plan.choice.bound.reset();
    plan.choice.spectral.reset();
    plan.choice.codec = format::lossless_codec(plan.choice.codec);
    encoder.kept_lossless().emplace(number, decision.reason);
  }
}

Result<void> Writer::Impl::decide_alone(std::uint32_t number, EncodePlan& plan) {
  // Starting threads takes longer than a chunk.
  const unsigned threads = plan.geometry.n_chunks == 1 ? 1 : options.threads;
  RateControl control(threads, [&] { return encoder.report(number, 0); });
  CFCK_TRY_ASSIGN(const std::vector<SpectralDecision> decisions,
                  control.decide(plan.choice.spectral->target, {&plan, 1}));
  apply(number, plan, decisions.front());
  return {};
}

Result<void> Writer::Impl::decide_together() {
  std::vector<EncodePlan> plans;
  std::vector<EncodePlan> rest;
  for (const Deferred& record : deferred) {
    (record.waits_for_step ? plans : rest).push_back(record.plan);
  }
  const auto go_on = [&]() -> Result<void> {
    return deferred.empty() ? Result<void>() : encoder.report(deferred.front().record, 0);
  };
  std::vector<RecordSize> rest_sizes;
  if (options.size) {
    CFCK_TRY_ASSIGN(rest_sizes, format::record_sizes(rest, options.threads, go_on));
  }
  const RateControl::FileBytes all_bytes = [&](std::span<const RecordSize> sizes) {
    std::vector<RecordSize> all;
    auto of_rest = rest_sizes.begin();
    auto waiting = sizes.begin();
    for (const Deferred& record : deferred) {
      all.push_back(record.waits_for_step ? *waiting++ : *of_rest++);
    }
    return file_bytes(all);
  };
  RateControl control(options.threads, go_on);
  CFCK_TRY_ASSIGN(const std::vector<SpectralDecision> decisions,
                  control.decide(rules.file_target(), plans, all_bytes));
  file_step = control.step();
  auto decision = decisions.begin();
  for (Deferred& record : deferred) {
    if (record.waits_for_step) {
      apply(record.record, record.plan, *decision++);
    }
  }
  return {};
}

Result<std::uint64_t> Writer::Impl::file_bytes(std::span<const RecordSize> sizes) const {
  format::DroppingSink sink;
  format::RecordLayout blank(sink, 0, layout.index());
  CFCK_TRY(blank.write(format::encode_head()));
  for (std::size_t i = 0; i < deferred.size(); ++i) {
    CFCK_TRY(format::lay_out(blank, deferred[i].record, deferred[i].plan.geometry, sizes[i]));
  }
  CFCK_TRY(blank.close_pack());
  format::MetadataFrame end = metadata;
  CFCK_TRY(write_attachments(blank, end.attachments));
  return format::write_end(blank, end, generation, previous_file_bytes);
}

Result<void> Writer::Impl::encode_deferred() {
  if (!rules.has_file_target()) {
    return {};
  }
  for (Deferred& record : deferred) {
    if (record.plan.choice.spectral && !record.waits_for_step) {
      CFCK_TRY(decide_alone(record.record, record.plan));
    }
  }
  CFCK_TRY(decide_together());
  std::vector<Deferred> records = std::move(deferred);
  deferred.clear();
  for (Deferred& record : records) {
    CFCK_TRY(encoder.encode(record.record, std::move(record.plan)));
  }
  return {};
}

}  // namespace cfck
