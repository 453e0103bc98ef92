#include "codec/decode_job.hpp"

#include <algorithm>

#include "codec/errors.hpp"

namespace cfck::codec {

Result<void> check_body(const DecodeJob& job) {
  if (!job.body_bytes) {
    return {};
  }
  CFCK_TRY_ASSIGN(const std::uint32_t body_bytes, job.decoder->body_bytes(job.info, job.payload));
  if (body_bytes != *job.body_bytes) {
    return corrupt("the body of a chunk has another length than its frame", 0);
  }
  return {};
}

Result<void> decode(const DecodeJob& job, Scratch& scratch) {
  if (job.decoder == nullptr) {
    std::copy_n(job.payload.data(), job.out.size(), job.out.data());  // both may be empty
    return {};
  }
  CFCK_TRY(check_body(job));
  return job.decoder->decode(job.info, job.payload, scratch, job.out);
}

}  // namespace cfck::codec
