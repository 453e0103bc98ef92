// Requests of records that tests change.
#pragma once

#include <memory>

#include "spectral/plan/request.hpp"

namespace cfck::spectral {

// A request that the record shares with no other, to be changed in place.
inline SpectralRequest& edited_request(LossyRecord& record) {
  const SpectralRequest* const shared = spectral_request(record);
  auto request = shared != nullptr ? std::make_shared<SpectralRequest>(*shared)
                                   : std::make_shared<SpectralRequest>();
  record.request = request;
  return *request;
}

}  // namespace cfck::spectral
