#include "hdf5/archive/reader_process.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <utility>

#include "base/bytes.hpp"
#include "base/run_guarded.hpp"
#include "base/text.hpp"
#include "hdf5/archive/reader_program.hpp"

namespace cfck::hdf5 {
namespace {

// Bytes of a file that the process may ask for at a time.
constexpr std::uint64_t kMaxWantedBytes = std::uint64_t{16} << 20;

Error bad_message() {
  return internal_error("the program that reads HDF5 files sent something that it never should");
}

Error no_answer(int signal, const JobLimits& limits) {
  switch (signal) {
    case SIGINT:  // of the terminal, for the whole program
    case SIGTERM:
      return cancelled();
    case SIGKILL:
      return io_error(
          "the process that reads HDF5 files was killed; was there too little memory for it?");
    case SIGXCPU:
      return limit_exceeded("libhdf5 computed on this file for more than " +
                            std::to_string(limits.seconds) +
                            " seconds; it is damaged, or made for that: download it again");
    case 0:
      return io_error("the process that reads HDF5 files ended without an answer; try again");
    default:
      return corrupt("libhdf5 crashed on this file; it is damaged: download it again");
  }
}

// One job, from cfck's side. Other processes that were copied from this one meanwhile may hold the
// other ends as long as they live: neither the end of a message nor that of the process shows as an
// end of the stream, but by what the pipe says.
class Job {
 public:
  Job(const JobRequest& request, const ByteSource& source, const TakeMessage& take)
      : request_(request), source_(source), take_(take) {}

  Result<std::string> run() {
    CFCK_TRY(start());
    const std::string text = text_of(request_);
    std::byte n_bytes[8];
    store<std::uint64_t>(n_bytes, text.size());
    if (!send_all(ends_.stream.get(), {n_bytes, view_of(text)})) return ended();
    while (true) {
      std::array<std::byte, kHeadBytes> bytes{};
      if (!receive(bytes)) return ended();
      const MessageHead head = head_of(bytes.data());
      if (!receive_payload(head.n_bytes)) return ended();
      const std::string_view payload(reinterpret_cast<const char*>(payload_.data()), head.n_bytes);
      switch (head.kind) {
        case MessageKind::kWanted:
          CFCK_TRY(answer(view_of(payload)));
          break;
        case MessageKind::kFill:
        case MessageKind::kPiece:
          CFCK_TRY(take_(head.kind, view_of(payload)));
          break;
        case MessageKind::kDone:
          return std::string(payload);
        case MessageKind::kFailed:
          // The process cannot pass on why reading failed.
          if (source_error_) return std::move(*source_error_);
          return error_of(payload);
        default:
          return bad_message();
      }
    }
  }

 private:
  Result<void> start() {
    CFCK_TRY_ASSIGN(ends_, start_job());
    return {};
  }

  // Waits until there are bytes, or the process has ended and there are none.
  bool wait_for_bytes() {
    // Where nobody tells how the process ends, it may be gone, and a copy of this one have the
    // other end of the stream. A chunk takes far less.
    constexpr int kMaxSilenceMilliseconds = 60000;
    while (true) {
      std::array<pollfd, 2> wanted = {
          pollfd{ends_.stream.get(), POLLIN, 0},
          pollfd{status_ || lost_ ? -1 : ends_.status.get(), POLLIN, 0}};
      const int timeout = status_ ? 0 : lost_ ? kMaxSilenceMilliseconds : -1;
      const int n = ::poll(wanted.data(), wanted.size(), timeout);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return false;
      if (wanted[0].revents != 0) return true;
      if (timeout >= 0 && n == 0) return false;
      if (wanted[1].revents != 0) read_status();
    }
  }

  void read_status() {
    int status = 0;
    ssize_t n = 0;
    do {
      n = ::read(ends_.status.get(), &status, sizeof(status));
    } while (n < 0 && errno == EINTR);
    if (n == sizeof(status)) {
      status_ = status;
    } else {
      lost_ = true;  // the program itself ended; the process may go on
    }
  }

  bool receive(MutableBytes out) {
    while (!out.empty()) {
      if (!wait_for_bytes()) return false;
      const ssize_t n = ::recv(ends_.stream.get(), out.data(), out.size(), 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      out = out.subspan(static_cast<std::size_t>(n));
    }
    return true;
  }

  // Memory grows with what comes, not with what is claimed.
  bool receive_payload(std::uint64_t n_bytes) {
    constexpr std::uint64_t kStep = std::uint64_t{4} << 20;
    for (std::uint64_t at = 0; at < n_bytes;) {
      const std::uint64_t n = std::min(kStep, n_bytes - at);
      if (payload_.size() < at + n) payload_.resize(at + n);
      if (!receive(std::span(payload_).subspan(at, n))) return false;
      at += n;
    }
    return true;
  }

  Result<void> answer(ByteView wanted) {
    if (wanted.size() != 16) return bad_message();
    const auto offset = load<std::uint64_t>(wanted.data());
    const auto n_bytes = load<std::uint64_t>(wanted.data() + 8);
    const std::uint64_t size = request_.file_bytes;
    if (n_bytes > kMaxWantedBytes || offset > size || n_bytes > size - offset) return bad_message();
    const std::byte yes[] = {std::byte{1}};
    const std::byte no[] = {std::byte{0}};
    ByteView bytes = source_.mapped();
    if (!bytes.empty()) {
      bytes = bytes.subspan(offset, n_bytes);
    } else {
      wanted_.resize(std::max<std::size_t>(wanted_.size(), n_bytes));
      auto done = source_.read_at(offset, MutableBytes(wanted_).first(n_bytes));
      if (!done) {
        if (!source_error_) source_error_ = std::move(done).error();
        // If the process has ended, waiting for its next message will show that.
        (void)send_all(ends_.stream.get(), {no});
        return {};
      }
      bytes = ByteView(wanted_).first(n_bytes);
    }
    (void)send_all(ends_.stream.get(), {yes, bytes});
    return {};
  }

  Error ended() {
    constexpr int kMaxMilliseconds = 5000;  // that the program takes to say how its process ended
    if (!status_ && !lost_) {
      pollfd wanted{ends_.status.get(), POLLIN, 0};
      if (::poll(&wanted, 1, kMaxMilliseconds) > 0) read_status();
    }
    const int status = status_.value_or(0);
    return no_answer(WIFSIGNALED(status) ? WTERMSIG(status) : 0, request_.limits);
  }

  const JobRequest& request_;
  const ByteSource& source_;
  const TakeMessage& take_;
  JobEnds ends_;
  std::optional<int> status_;
  bool lost_ = false;
  std::optional<Error> source_error_;
  std::vector<std::byte> payload_;
  std::vector<std::byte> wanted_;
};

}  // namespace

Result<std::string> run_job(const JobRequest& request, const ByteSource& source,
                            const TakeMessage& take) {
  return Job(request, source, take).run();
}

}  // namespace cfck::hdf5
