#include "hdf5/archive/reader_link.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/bytes.hpp"

namespace cfck::hdf5 {
namespace {

using Json = nlohmann::json;

std::string cbor(const Json& json) {
  std::string text;
  Json::to_cbor(json, text);
  return text;
}

// A message of one byte, with room for the descriptors of a job.
class EndsMessage {
 public:
  EndsMessage() {
    message_.msg_iov = &data_;
    message_.msg_iovlen = 1;
    message_.msg_control = space_.data();
    message_.msg_controllen = space_.size();
  }
  EndsMessage(const EndsMessage&) = delete;
  EndsMessage& operator=(const EndsMessage&) = delete;

  msghdr* get() { return &message_; }
  // nullptr: the message that was received has no descriptors.
  cmsghdr* head() { return CMSG_FIRSTHDR(&message_); }

 private:
  char byte_ = 0;
  iovec data_{&byte_, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(SentEnds))> space_{};
  msghdr message_{};
};

}  // namespace

bool send_ends(int socket, const SentEnds& ends) {
  EndsMessage message;
  cmsghdr* const head = message.head();
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(ends));
  std::memcpy(CMSG_DATA(head), &ends, sizeof(ends));
  ssize_t n = 0;
  do {
    n = ::sendmsg(socket, message.get(), MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  return n == 1;
}

bool receive_ends(int socket, SentEnds& ends) {
  EndsMessage message;
  const ssize_t n = ::recvmsg(socket, message.get(), MSG_CMSG_CLOEXEC);
  if (n < 0 && errno == EINTR) return true;
  if (n <= 0) return false;
  const cmsghdr* const head = message.head();
  if (head == nullptr || head->cmsg_type != SCM_RIGHTS) return true;
  if (head->cmsg_len == CMSG_LEN(sizeof(ends))) {
    std::memcpy(&ends, CMSG_DATA(head), sizeof(ends));
  } else if (head->cmsg_len == CMSG_LEN(sizeof(int))) {
    // This process may have no more descriptors. Whoever waits at the other end of this one is told
    // by closing it.
    int only = -1;
    std::memcpy(&only, CMSG_DATA(head), sizeof(only));
    (void)::close(only);
  }
  return true;
}

std::string bytes_of(const MessageHead& head) {
  std::string bytes(kHeadBytes, static_cast<char>(head.kind));
  store(reinterpret_cast<std::byte*>(bytes.data()) + 1, head.n_bytes);
  return bytes;
}

MessageHead head_of(const std::byte* bytes) {
  return {static_cast<MessageKind>(bytes[0]), load<std::uint64_t>(bytes + 1)};
}

std::string text_of(const JobRequest& request) {
  Json boxes = Json::array();
  for (const Box& box : request.boxes) boxes.push_back({box.starts, box.stops});
  return cbor({{"seconds", request.limits.seconds},
               {"bytes", request.limits.bytes},
               {"file_bytes", request.file_bytes},
               {"name", request.name},
               {"dtype", static_cast<int>(request.dtype)},
               {"boxes", std::move(boxes)}});
}

JobRequest request_of(std::string_view text) {
  const Json json = Json::from_cbor(text);
  JobRequest request;
  request.limits = {json["seconds"], json["bytes"]};
  request.file_bytes = json["file_bytes"];
  request.name = json["name"];
  request.dtype = static_cast<DType>(json["dtype"].get<int>());
  for (const Json& box : json["boxes"]) request.boxes.push_back({box[0], box[1]});
  return request;
}

std::string text_of(const Error& error) {
  return cbor({{"code", static_cast<int>(error.code)},
               {"message", error.message},
               {"record", error.record},
               {"at", error.byte_offset.has_value()},
               {"byte", error.byte_offset.value_or(0)}});
}

Error error_of(std::string_view text) {
  const Json json = Json::from_cbor(text);
  Error error{static_cast<ErrorCode>(json["code"].get<int>()), json["message"], json["record"], {}};
  if (json["at"].get<bool>()) error.byte_offset = json["byte"].get<std::uint64_t>();
  return error;
}

bool send_all(int socket, std::initializer_list<ByteView> parts) {
  for (ByteView rest : parts) {
    while (!rest.empty()) {
      const ssize_t n = ::send(socket, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      rest = rest.subspan(static_cast<std::size_t>(n));
    }
  }
  return true;
}

bool receive_all(int socket, MutableBytes out) {
  while (!out.empty()) {
    const ssize_t n = ::recv(socket, out.data(), out.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    out = out.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

ByteView view_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace cfck::hdf5
