#include "encode/executor.hpp"

#include <utility>
#include <vector>

#include "base/threads/threads.hpp"

namespace cfck::encode {
namespace {

class CpuExecutor final : public Executor {
 public:
  explicit CpuExecutor(unsigned threads)
      : memory_(std::size_t{threads} + 1), pipeline_(std::make_unique<OrderedPipeline>(threads)) {}

  std::size_t capacity() const noexcept override { return 2 * std::size_t{pipeline_->threads()}; }

  Result<void> submit(const ChunkBatch& batch) override {
    while (std::unique_ptr<ChunkTask> task = batch()) {
      CFCK_TRY(pipeline_->submit(std::make_unique<Job>(*this, std::move(task))));
    }
    return {};
  }

  Result<void> drain() override { return pipeline_->drain(); }

  void release() override {
    pipeline_ = std::make_unique<OrderedPipeline>(pipeline_->threads());
    memory_ = std::vector<WorkerMemory>(memory_.size());
  }

  WorkerMemory& caller_memory() noexcept override { return memory_.back(); }

 private:
  class Job final : public OrderedPipeline::Job {
   public:
    Job(CpuExecutor& executor, std::unique_ptr<ChunkTask> task)
        : executor_(executor), task_(std::move(task)) {}
    Result<void> run(unsigned worker) override { return task_->run(executor_.memory_[worker]); }
    Result<void> finish() override { return task_->finish(); }

   private:
    CpuExecutor& executor_;
    const std::unique_ptr<ChunkTask> task_;
  };

  std::vector<WorkerMemory> memory_;           // one for each thread, the last for the caller
  std::unique_ptr<OrderedPipeline> pipeline_;  // goes first: its jobs use the memory
};

}  // namespace

Result<void> Executor::submit(std::unique_ptr<ChunkTask> task) {
  return submit(ChunkBatch([&] { return std::exchange(task, nullptr); }));
}

std::unique_ptr<Executor> make_cpu_executor(unsigned threads) {
  return std::make_unique<CpuExecutor>(resolve_threads(threads));
}

}  // namespace cfck::encode
