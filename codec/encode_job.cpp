#include "codec/encode_job.hpp"

namespace cfck::codec {

Result<EncodedValues> encode(const EncodeJob& job, Scratch& scratch,
                             std::vector<std::byte>& decoded, EncodedChunk& out) {
  EncodedValues encoded;
  if (job.plan == nullptr) {
    CFCK_TRY(job.encoder->encode(job.info, job.values, scratch, out));
    encoded.decoded = job.values;
    return encoded;
  }
  decoded.resize(job.values.size());
  CFCK_TRY(
      job.plan->encode(job.info.first_elem, job.values, scratch, decoded, out, encoded.errors));
  encoded.decoded = decoded;
  return encoded;
}

}  // namespace cfck::codec
