#include "encode/executor.hpp"

#include <utility>

namespace cfck::encode {

class Executor::Job final : public OrderedPipeline::Job {
 public:
  Job(Executor& executor, std::unique_ptr<ChunkTask> task)
      : executor_(executor), task_(std::move(task)) {}
  Result<void> run(unsigned worker) override { return task_->run(executor_.memory_[worker]); }
  Result<void> finish() override { return task_->finish(); }

 private:
  Executor& executor_;
  const std::unique_ptr<ChunkTask> task_;
};

Executor::Executor(unsigned threads)
    : memory_(std::size_t{resolve_threads(threads)} + 1),
      pipeline_(std::make_unique<OrderedPipeline>(resolve_threads(threads))) {}

Result<void> Executor::submit(const ChunkBatch& batch) {
  while (std::unique_ptr<ChunkTask> task = batch()) {
    CFCK_TRY(pipeline_->submit(std::make_unique<Job>(*this, std::move(task))));
  }
  return {};
}

Result<void> Executor::submit(std::unique_ptr<ChunkTask> task) {
  return submit(ChunkBatch([&] { return std::exchange(task, nullptr); }));
}

void Executor::release() {
  pipeline_ = std::make_unique<OrderedPipeline>(pipeline_->threads());
  memory_ = std::vector<WorkerMemory>(memory_.size());
}

}  // namespace cfck::encode
