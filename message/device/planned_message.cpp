#include "message/device/planned_message.hpp"

#include "base/bytes.hpp"
#include "encode/trial/choose_candidate.hpp"
#include "encode/trial/for_device.hpp"
#include "encode/trial/probes.hpp"
#include "message/plan.hpp"

namespace cfck::message {

Result<void> PlannedMessage::prepare(const MessageOptions& options, std::size_t most_scratch) {
  CFCK_TRY_ASSIGN(encode::TensorChoice choice, choose(options, dtype_, shape_));
  if (header_.n_elems == 0 || choice.codec == CodecChoice::kRaw) {
    return {};
  }
  plan_values(
      {dtype_, shape_, source_, chunk_elems_for(options, dtype_, shape_, header_.n_elems, choice),
       options.entropy, options.level},
      plan_);
  plan_.choice = std::move(choice);
  if (encode::may_lose_on_device(plan_)) {
    return prepare_with_loss(most_scratch);
  }
  chunks_.resize(plan_.geometry.n_chunks);
  for (std::uint64_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    chunks_[chunk].most_bytes = plan_.geometry.bytes_of(chunk);
  }
  // A table alone may be longer than the values.
  if (!encode::tries_device(plan_) || !plan_chunks_without_loss(most_scratch) ||
      payloads_at() + kHashBytes > most_bytes()) {
    chunks_.clear();
  }
  return {};
}

bool PlannedMessage::plan_chunks_without_loss(std::size_t most_scratch) {
  const auto largest = encode::device_plan(plan_, 0);
  if (!largest || largest->memory_bytes > most_scratch) {
    return false;
  }
  for (std::uint64_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    chunks_[chunk].plan = *encode::device_plan(plan_, chunk);
    chunks_[chunk].lossy = nullptr;
  }
  return true;
}

Result<void> PlannedMessage::prepare_with_loss(std::size_t most_scratch) {
  const codec::LossyEncoder& encoder = *codec::find_lossy_encoder(plan_.choice.lossy_codec);
  const codec::LossyRecord record = encode::lossy_record(plan_, {}, plan_.entropy, plan_.level);
  const std::optional<codec::DeviceLossyRoom> room = encoder.room_on_device(record);
  if (!room || room->memory_bytes > most_scratch) {
    return {};
  }
  for (std::uint64_t chunk = 0; chunk < plan_.geometry.n_chunks; ++chunk) {
    const auto n_elems = static_cast<std::uint32_t>(plan_.geometry.elems_of(chunk));
    chunks_.push_back({.plan = {room->kernel, n_elems, room->memory_bytes},
                       .most_bytes = plan_.geometry.bytes_of(chunk)});
  }
  if (payloads_at() + room->preamble_bytes + kHashBytes > most_bytes()) {
    chunks_.clear();
    return {};
  }
  room_ = room;
  return {};
}

Result<void> PlannedMessage::look_at_values(encode::DeviceLook& look) {
  only_.reset();
  known_ = {};
  return encode::look_at_values(plan_, source_.values(), look, known_);
}

Result<void> PlannedMessage::plan_with_loss(encode::WorkerMemory& memory) {
  known_.n_bytes = header_.n_bytes;
  plan_.on_device = &known_;
  Result<encode::Candidates> found =
      encode::candidates_for(plan_, costs_of_chunks(header_.size() + kHashBytes), memory);
  plan_.on_device = nullptr;
  known_ = {};
  CFCK_TRY_ASSIGN(const encode::Candidates candidates, std::move(found));
  if (encode::may_be_of_device(candidates) && plan_chunks(candidates.list.front())) {
    only_ = candidates.list.front();
  }
  return {};
}

bool PlannedMessage::plan_chunks(const encode::Candidate& candidate) {
  if (candidate.lossy == nullptr) {
    return plan_chunks_without_loss(room_->memory_bytes);
  }
  lossy_chunks_.clear();
  for (std::uint64_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    const auto planned = candidate.lossy->plan_for_device(chunk * plan_.geometry.chunk_elems,
                                                          plan_.geometry.elems_of(chunk));
    if (!planned) {
      return false;
    }
    lossy_chunks_.push_back(*planned);
  }
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    chunks_[i].plan = lossy_chunks_[i].chunk;
    chunks_[i].lossy = &lossy_chunks_[i];
  }
  return true;
}

void PlannedMessage::set_values(const void* values) {
  source_.set(values);
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    chunks_[i].values = source_.values() + i * plan_.geometry.chunk_bytes;
  }
}

void PlannedMessage::write_header(std::byte* to) const {
  Header coded = header_;
  coded.codec = only_ ? only_->codec : CodecId::kLossless;
  coded.entropy = only_ ? only_->entropy : EntropyId::kRans;
  coded.has_table = has_table();
  message::write_header(coded, to);
  if (coded.has_table) {
    std::byte* const table = to + header_.size();
    detail::store<std::uint32_t>(table, static_cast<std::uint32_t>(plan_.geometry.chunk_elems));
    detail::store<std::uint32_t>(table + 4, static_cast<std::uint32_t>(preamble().size()));
  }
}

Result<bool> PlannedMessage::is_that_of_the_host(std::uint64_t n_payload_bytes,
                                                 ByteView first_values,
                                                 encode::WorkerMemory& memory) {
  const encode::FrameCosts costs = costs_of_chunks(header_.size() + kHashBytes);
  std::optional<encode::Candidate> only = only_;
  if (!only) {
    encode::DeviceTensor known;
    known.n_bytes = header_.n_bytes;
    known.known.push_back({0, {first_values.begin(), first_values.end()}});
    plan_.on_device = &known;
    Result<encode::Candidates> found = encode::candidates_for(plan_, costs, memory);
    plan_.on_device = nullptr;
    CFCK_TRY_ASSIGN(const encode::Candidates candidates, std::move(found));
    if (!encode::may_be_of_device(candidates)) {
      return false;
    }
    only = candidates.list.front();
  }
  if (has_table()) {
    return payloads_at() + n_payload_bytes + kHashBytes < most_bytes();
  }
  return encode::is_chosen(plan_, costs, *only, n_payload_bytes) &&
         n_payload_bytes < header_.n_bytes;
}

Result<std::vector<std::byte>> PlannedMessage::of_host(const MessageOptions& options) const {
  std::vector<std::byte> values(header_.n_bytes);
  if (!values.empty()) {
    CFCK_TRY(source_.read_at(0, values));
  }
  std::vector<std::byte> made(most_bytes());
  MessageWorkspace workspace;
  CFCK_TRY_ASSIGN(const std::uint64_t n_bytes,
                  encode_message(TensorView{dtype_, shape_, values}, options, made, workspace));
  made.resize(n_bytes);
  return made;
}

std::uint64_t PlannedMessage::header_bytes() const {
  return header_.size() + (has_table() ? kTableFixedBytes : std::size_t{0});
}
std::uint64_t PlannedMessage::table_at() const {
  return has_table() ? header_.size() + kTableFixedBytes : 0;
}
std::uint64_t PlannedMessage::preamble_at() const {
  return header_.size() + (has_table() ? table_bytes(chunks_.size()) : 0);
}
std::uint64_t PlannedMessage::payloads_at() const { return preamble_at() + preamble().size(); }
std::size_t PlannedMessage::lossy_control_bytes() const {
  if (!room_) {
    return 0;
  }
  const encode::LossyControlBytes control = encode::lossy_control_bytes(*room_);
  return chunks_.size() * control.of_chunk + control.of_tensor +
         device::aligned_bytes(room_->preamble_bytes) + sizeof(device::Copy);
}
std::uint64_t PlannedMessage::most_bytes() const { return raw_message_bytes(header_); }
std::uint64_t PlannedMessage::first_bytes() const {
  return tries_device() && !may_lose() ? encode::probed_elems(plan_) * bits_per_element(dtype_) / 8
                                       : 0;
}

}  // namespace cfck::message
