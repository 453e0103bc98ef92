#include "encode/executor.hpp"

namespace cfck::encode {

Executor::Executor(unsigned threads)
    : memory_(std::size_t{resolve_threads(threads)} + 1),
      pipeline_(std::make_unique<OrderedPipeline>(resolve_threads(threads))) {}

void Executor::release() {
  pipeline_ = std::make_unique<OrderedPipeline>(pipeline_->threads());
  memory_ = std::vector<WorkerMemory>(memory_.size());
}

}  // namespace cfck::encode
