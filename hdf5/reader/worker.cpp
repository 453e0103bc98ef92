#include "hdf5/reader/worker.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "base/bytes.hpp"
#include "base/run_guarded.hpp"
#include "hdf5/archive/listing_text.hpp"
#include "hdf5/archive/reader_link.hpp"
#include "hdf5/library/file_drivers.hpp"
#include "hdf5/reader/dataset_reader.hpp"
#include "hdf5/reader/list_file.hpp"
#include "hdf5/reader/remote_source.hpp"

namespace cfck::hdf5 {
namespace {

constexpr std::uint64_t kMaxRequestBytes = std::uint64_t{256} << 20;

// The bytes of memory that this process may write to; 0 where the system does not say.
std::uint64_t data_bytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long long pages = 0;
  const int n = std::fscanf(file, "%*u %*u %*u %*u %*u %llu", &pages);
  (void)std::fclose(file);
  return n == 1 ? pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

// A crash is an answer here: it needs no file with the memory.
void limit_process(const JobLimits& limits) {
  const rlimit none{0, 0};
  (void)::setrlimit(RLIMIT_CORE, &none);
  // Damage may also send libhdf5 round in circles.
  const rlimit time{limits.seconds, limits.seconds + 1};  // SIGXCPU, and then SIGKILL
  (void)::setrlimit(RLIMIT_CPU, &time);
  // Or make it ask for any amount of memory.
  if (const std::uint64_t data = data_bytes(); data != 0) {
    const rlimit memory{data + limits.bytes, data + limits.bytes};
    (void)::setrlimit(RLIMIT_DATA, &memory);
  }
}

Result<JobRequest> receive_request(int stream) {
  std::byte n_bytes[8];
  if (!receive_all(stream, n_bytes)) return io_error("no request");
  const auto size = load<std::uint64_t>(n_bytes);
  if (size > kMaxRequestBytes) return io_error("no request");
  std::string text(size, '\0');
  if (!receive_all(stream, std::as_writable_bytes(std::span(text)))) return io_error("no request");
  return request_of(text);
}

bool send_message(int stream, MessageKind kind, std::initializer_list<ByteView> parts) {
  MessageHead head{kind, 0};
  for (const ByteView part : parts) head.n_bytes += part.size();
  return send_all(stream, {view_of(bytes_of(head))}) && send_all(stream, parts);
}

// Sends elements as messages.
class Sender final : public ElementSink {
 public:
  explicit Sender(int stream) : stream_(stream) {}

  Result<void> fill(ByteView element) override {
    return sent(send_message(stream_, MessageKind::kFill, {element}));
  }

  Result<void> piece(std::uint64_t box, const Box& part, ByteView elements) override {
    std::vector<std::uint64_t> place = {box};
    place.insert(place.end(), part.starts.begin(), part.starts.end());
    place.insert(place.end(), part.stops.begin(), part.stops.end());
    return sent(
        send_message(stream_, MessageKind::kPiece, {std::as_bytes(std::span(place)), elements}));
  }

 private:
  static Result<void> sent(bool is_sent) {
    if (!is_sent) return io_error("nobody takes the elements");
    return {};
  }

  int stream_;
};

Result<std::string> answer_to(const JobRequest& request, int stream) {
  const RemoteSource source(stream, request.file_bytes);
  const Library library;
  SourceFile opened;
  opened.source = &source;
  CFCK_TRY_ASSIGN(const Handle file, open_source(opened));
  if (request.name.empty()) {
    CFCK_TRY_ASSIGN(const Listing listing, list_file(file.get(), request.file_bytes));
    return text_of(listing);
  }
  Sender sender(stream);
  CFCK_TRY(read_elements(file.get(), source, request, sender));
  return std::string();
}

}  // namespace

int do_job(int stream) {
  JobLimits limits;
  Result<std::string> answer = detail::run_guarded([&]() -> Result<std::string> {
    CFCK_TRY_ASSIGN(const JobRequest request, receive_request(stream));
    limits = request.limits;
    limit_process(limits);
    return answer_to(request, stream);
  });
  if (!answer && answer.error().code == ErrorCode::kOutOfMemory) {
    answer = limit_exceeded("reading the file takes more than the " +
                            std::to_string(limits.bytes >> 20) +
                            " MiB of memory that it may have, or than there are");
  }
  const bool is_told =
      answer ? send_message(stream, MessageKind::kDone, {view_of(*answer)})
             : send_message(stream, MessageKind::kFailed, {view_of(text_of(answer.error()))});
  return is_told ? 0 : 1;
}

}  // namespace cfck::hdf5
