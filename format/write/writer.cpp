#include "cfck/writer.hpp"

#include <algorithm>

#include "base/hashing/hashing.hpp"
#include "base/text.hpp"
#include "cfck/base.hpp"
#include "format/container/container.hpp"
#include "format/container/tensor_checks.hpp"
#include "format/write/writer_impl.hpp"

namespace cfck {

using encode::EncodePlan;
using encode::TensorChoice;

namespace {

constexpr std::size_t kMaxNameBytes = 65535;  // the index counts them in two bytes

}  // namespace

Writer::Impl::Impl(ByteSink& sink, EncodeOptions encode_options, encode::EncodeRules encode_rules,
                   WriterStart start)
    : output(sink),
      options(std::move(encode_options)),
      rules(std::move(encode_rules)),
      generation(start.generation),
      previous_file_bytes(start.previous_file_bytes),
      layout(sink, start.offset_bytes, std::move(start.index)),
      metadata(std::move(start.metadata)),
      emitter(layout),
      encoder(emitter, format::kFrameCosts, options.threads) {
  sink.writer_began();
  const std::vector<format::StoredRecord>& records = layout.index().records;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (!records[i].record.hidden) {
      names.emplace(records[i].record.name, static_cast<std::uint32_t>(i));
    }
  }
}

Result<void> Writer::Impl::check_name(std::string_view name) const {
  if (name.size() > kMaxNameBytes) {
    return limit_exceeded("the name of a tensor may have " + std::to_string(kMaxNameBytes) +
                          " bytes at most, but this one has " + std::to_string(name.size()) +
                          ": '" + escaped(name.substr(0, 60)) + "...'");
  }
  CFCK_TRY(format::check_utf8_name(name));
  if (names.contains(std::string(name))) {
    return invalid_argument("a tensor with this name was added before; names must differ")
        .in_record(std::string(name.substr(0, 200)));
  }
  return {};
}

Result<std::uint32_t> Writer::Impl::push(std::string_view name, bool hidden, DType dtype,
                                         const Shape& shape) {
  const auto refuse = [&](std::string message) {
    return limit_exceeded(std::move(message)).in_record(std::string(name));
  };
  if (shape.size() > format::kMaxDims) {
    return refuse("a tensor may have " + std::to_string(format::kMaxDims) +
                  " dimensions at most, but this one has " + std::to_string(shape.size()));
  }
  for (const std::uint64_t size : shape) {
    if (size > format::kMaxDim) {
      return refuse("a dimension must be below 2^48");
    }
  }
  std::vector<format::StoredRecord>& records = layout.index().records;
  if (records.size() >= UINT32_MAX) {
    return refuse("a file cannot hold more records");
  }
  format::StoredRecord stored;
  Record& entry = stored.record;
  entry.name = name;
  entry.hidden = hidden;
  entry.dtype = dtype;
  entry.shape = shape;
  CFCK_TRY_ASSIGN(entry.n_elems, n_elems(shape));
  CFCK_TRY_ASSIGN(entry.decoded_bytes, n_bytes(dtype, shape));
  entry.chunk_elems = format::default_chunk_elems(dtype, shape, options.chunk_elems);
  entry.n_chunks = codec::chunk_count(entry.n_elems, entry.chunk_elems);
  entry.digest = digest_of({});
  const auto number = static_cast<std::uint32_t>(records.size());
  if (!hidden) {
    names.emplace(entry.name, number);
  }
  records.push_back(std::move(stored));
  return number;
}

// Aligns the ends of chunks to what the chosen codec prefers.
void Writer::Impl::align_chunks(std::uint32_t number, const TensorChoice& choice) {
  Record& entry = record(number);
  if (choice.request && entry.n_elems > entry.chunk_elems) {
    entry.chunk_elems = choice.request->align_chunks(entry.dtype, entry.shape, entry.chunk_elems);
    entry.n_chunks = codec::chunk_count(entry.n_elems, entry.chunk_elems);
  }
}

EncodePlan Writer::Impl::plan_for(std::uint32_t number, const Place& place) const {
  const Record& entry = layout.index().records[number].record;
  EncodePlan plan;
  plan.tries_others = true;
  plan.name = entry.name;
  plan.dtype = entry.dtype;
  plan.shape = entry.shape;
  plan.choice = place.choice;
  plan.geometry =
      codec::chunk_geometry(entry.dtype, entry.n_elems, entry.decoded_bytes, entry.chunk_elems);
  plan.source = place.source;
  plan.offset_bytes = place.offset_bytes;
  plan.entropy = options.entropy;
  plan.level = options.level;
  const BaseTensor* const in_base =
      options.base == nullptr || entry.hidden ? nullptr : options.base->find(entry.name);
  if (in_base != nullptr && in_base->dtype == entry.dtype && in_base->shape == entry.shape) {
    plan.base = options.base.get();
    plan.base_tensor = in_base;
  }
  plan.on_device = known_on_device(plan);
  return plan;
}

Result<void> Writer::Impl::encode(std::uint32_t number, const Place& place) {
  places.emplace(number, place);
  if (place.choice.reason) {
    encoder.kept_lossless().emplace(number, *place.choice.reason);
  }
  EncodePlan plan = plan_for(number, place);
  if (rules.has_file_target()) {
    const bool waits = place.choice.needs_step() && place.choice.target.whole_file;
    deferred.push_back({number, std::move(plan), waits});
    return {};
  }
  if (place.choice.needs_step()) {
    CFCK_TRY(decide_alone(number, plan));
  }
  return encoder.encode(number, std::move(plan));
}

void Writer::Impl::set_progress(WriteProgress progress) noexcept {
  write_progress = std::move(progress);
  if (!write_progress) {
    encoder.progress().set_listener({});
    return;
  }
  // A listener that holds a pointer needs no memory.
  encoder.progress().set_listener([this](std::uint64_t done_bytes, std::string_view name) {
    return write_progress(done_bytes, name) ? Result<void>() : cancelled();
  });
}

void Writer::Impl::share(std::uint32_t number, const TensorChoice& choice) {
  equal_to_base.push_back(number);
  if (choice.reason) {
    encoder.kept_lossless().emplace(number, *choice.reason);
  } else if (choice.is_lossy()) {
    lossy_shares.push_back(number);
  }
}

Result<void> Writer::Impl::add_source(std::string_view name, const TensorSource& tensor) {
  CFCK_TRY_ASSIGN(const TensorChoice choice, rules.choose(name, tensor.dtype, tensor.shape));
  return add_source(name, tensor, choice);
}

Result<void> Writer::Impl::add_source(std::string_view name, const TensorSource& tensor,
                                      const TensorChoice& choice) {
  CFCK_TRY(check_name(name));
  CFCK_TRY_ASSIGN(const std::uint32_t number, push(name, false, tensor.dtype, tensor.shape));
  align_chunks(number, choice);
  CFCK_TRY_ASSIGN(const std::uint64_t total, format::checked_bytes(name, tensor));
  if (total == 0) {
    return encoder.progress().advance(record(number).name, 0);
  }
  const Place place{tensor.source, tensor.offset_bytes, choice};
  if (device != nullptr) {
    if (Result<void> looked = look_at(std::span(&tensor, 1)); !looked) {
      return std::move(looked).error().in_record(std::string(name));
    }
  }
  const Result<std::optional<std::uint32_t>> twin =
      duplicates.find_or_add(number, tensor.shape, plan_for(number, place));
  if (!twin) {
    Error unread = twin.error();
    unread.record = name;
    return unread;
  }
  if (!*twin) {
    return encode(number, place);
  }
  places.emplace(number, place);
  record(number).kind = RecordKind::kDuplicate;
  record(number).base = **twin;
  share(number, choice);
  return encoder.progress().advance(record(number).name, total);
}

Result<TensorSource> Writer::Impl::source_in_memory(std::string_view name,
                                                    const TensorView& tensor) {
  CFCK_TRY(format::checked_bytes(name, tensor));
  const ByteSource& source = keep(std::make_unique<MemorySource>(tensor.data));
  return TensorSource{tensor.dtype, tensor.shape, &source, 0};
}

const ByteSource& Writer::Impl::keep(std::unique_ptr<ByteSource> source) {
  sources.push_back(std::move(source));
  return *sources.back();
}

Writer::Writer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Writer::~Writer() = default;
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;

Result<Writer> Writer::create(ByteSink& sink, EncodeOptions options) {
  return run_guarded([&]() -> Result<Writer> {
    CFCK_TRY_ASSIGN(Writer writer, WriterAccess::append(sink, std::move(options), {}));
    CFCK_TRY(writer.impl_->layout.write(format::encode_head()));
    return writer;
  });
}

Result<void> Writer::add(std::string_view name, const TensorView& tensor) {
  return WriterAccess::call(*this, [&](Impl& impl) -> Result<void> {
    CFCK_TRY_ASSIGN(const TensorSource source, impl.source_in_memory(name, tensor));
    return impl.add_source(name, source);
  });
}

Result<void> Writer::add(std::string_view name, const TensorView& tensor,
                         const TensorOptions& options) {
  return WriterAccess::call(*this, [&](Impl& impl) -> Result<void> {
    CFCK_TRY_ASSIGN(const TensorSource source, impl.source_in_memory(name, tensor));
    CFCK_TRY_ASSIGN(const TensorChoice choice,
                    impl.rules.choose(name, tensor.dtype, tensor.shape, options));
    return impl.add_source(name, source, choice);
  });
}

Result<void> Writer::add(std::string_view name, const TensorSource& tensor) {
  return WriterAccess::call(*this, [&](Impl& impl) { return impl.add_source(name, tensor); });
}

Result<void> Writer::add(std::string_view name, const TensorSource& tensor,
                         const TensorOptions& options) {
  return WriterAccess::call(*this, [&](Impl& impl) -> Result<void> {
    CFCK_TRY_ASSIGN(const TensorChoice choice,
                    impl.rules.choose(name, tensor.dtype, tensor.shape, options));
    return impl.add_source(name, tensor, choice);
  });
}

Result<void> Writer::add_tensors(std::span<const StridedTensor> tensors) {
  return WriterAccess::call(*this, [&](Impl& impl) { return impl.add_tensors(tensors); });
}

Result<void> Writer::add_alias(std::string_view name, std::string_view base,
                               std::uint64_t element_offset, const Shape& shape,
                               std::span<const std::uint64_t> strides) {
  return WriterAccess::call(*this, [&](Impl& impl) {
    return impl.add_alias(name, base, element_offset, shape, strides);
  });
}

Result<bool> Writer::tie(std::string_view name, std::string_view base) {
  return WriterAccess::call(*this, [&](Impl& impl) { return impl.tie(name, base); });
}

Result<void> Writer::set_metadata(std::string_view key, std::string_view value) {
  return WriterAccess::call(*this, [&](Impl& impl) -> Result<void> {
    CFCK_TRY(format::check_metadata(key, value));
    impl.metadata.entries.insert_or_assign(std::string(key), std::string(value));
    return {};
  });
}

Result<void> Writer::attach(std::string_view name, ByteView bytes) {
  return WriterAccess::call(*this, [&](Impl& impl) { return impl.attach(name, bytes); });
}

void Writer::set_progress(WriteProgress progress) {
  if (impl_) {
    impl_->set_progress(std::move(progress));
  }
}

void Writer::set_search_progress(SearchProgress progress) {
  if (impl_) {
    impl_->search_progress = std::move(progress);
  }
}

Result<WriteSummary> Writer::finish() {
  Writer* const self = this;
  CFCK_TRY_ASSIGN(std::vector<WriteSummary> summaries, finish_together({&self, 1}));
  return std::move(summaries.front());
}

}  // namespace cfck
