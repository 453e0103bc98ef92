// The messages between cfck and the program that reads HDF5 files for it (hdf5/reader).
//
// cfck starts the program with a socket as standard input, and sends it two descriptors for each
// job: a stream for the job, and a pipe for how its process ended. The program copies itself for a
// job. On the stream, cfck first sends a request (JobRequest, in CBOR). Then the process sends
// messages: of wanted bytes, which cfck answers, and of results, the last of which is kDone or
// kFailed.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/names/detail.hpp"
#include "cfck/dtype.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"
#include "hdf5/chunks/regions.hpp"

namespace cfck::hdf5 {

inline constexpr const char* kReaderProgram = "cfck-hdf5-reader";
// The exit status of a program that is of another build than cfck.
inline constexpr int kOtherBuild = 3;

struct JobLimits {
  std::uint64_t seconds = 0;  // of processor time
  std::uint64_t bytes = 0;    // of memory, beside what the process has to begin with
};

// Asks for the listing of a file where `name` is empty, else for elements of a dataset.
struct JobRequest {
  JobLimits limits;
  std::uint64_t file_bytes = 0;
  std::string name;
  DType dtype = DType::kU8;
  std::vector<Box> boxes;
};

enum class MessageKind : char {
  kWanted = 'w',  // bytes of the file: offset and number, 8 bytes each; the answer is a byte, 1 for
                  // success, and then the bytes
  kFill = 'v',    // the element that everything has which no piece has
  kPiece = 'p',   // a part of a box: the number of the box, starts, stops (8 bytes each), elements
  kDone = 'd',    // the listing; nothing for elements
  kFailed = 'f',  // an error
};

struct MessageHead {
  MessageKind kind = MessageKind::kFailed;
  std::uint64_t n_bytes = 0;
};
inline constexpr std::size_t kHeadBytes = 9;
std::string bytes_of(const MessageHead& head);
MessageHead head_of(const std::byte* bytes);

std::string text_of(const JobRequest& request);
JobRequest request_of(std::string_view text);  // may throw
std::string text_of(const Error& error);
Error error_of(std::string_view text);  // may throw

// The two descriptors of a job, as they go to the program.
struct SentEnds {
  int stream = -1;
  int status = -1;
};
// Sends them; false, with the reason in errno, where nobody reads the socket any more.
bool send_ends(int socket, const SentEnds& ends);
// Receives them; `ends` stays as it is where a signal came first, or a message without them, or
// this process may open no more files. False where nobody has the other end of the socket any more.
bool receive_ends(int socket, SentEnds& ends);

// Sends all bytes to a socket; false where nobody reads it any more. Raises no signal.
bool send_all(int socket, std::initializer_list<ByteView> parts);
// Receives exactly so many bytes; false where there are no more. Waits.
bool receive_all(int socket, MutableBytes out);

ByteView view_of(std::string_view text);

}  // namespace cfck::hdf5
