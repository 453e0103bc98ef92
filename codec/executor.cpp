#include "codec/executor.hpp"

#include <cstring>

#include "codec/errors.hpp"

namespace cfck::codec {
namespace {

Result<void> decode_one(const ChunkTask& task, Scratch& scratch) {
  if (task.decoder == nullptr) {
    std::memcpy(task.out.data(), task.payload.data(), task.out.size());
    return {};
  }
  CFCK_TRY(check_body(task));
  return task.decoder->decode(task.info, task.payload, scratch, task.out);
}

}  // namespace

Result<void> check_body(const ChunkTask& task) {
  if (!task.body_bytes) {
    return {};
  }
  CFCK_TRY_ASSIGN(const std::uint32_t body_bytes,
                  task.decoder->body_bytes(task.info, task.payload));
  if (body_bytes != *task.body_bytes) {
    return corrupt("the body of a chunk has another length than its frame", 0);
  }
  return {};
}

void CpuExecutor::decode(std::span<ChunkTask> batch) {
  for (ChunkTask& task : batch) {
    task.result = decode_one(task, scratch_);
  }
}

}  // namespace cfck::codec
