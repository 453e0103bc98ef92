#include "interop/keras/writer.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "interop/keras/format.hpp"
#include "interop/zip/directory.hpp"
#include "interop/zip/sink.hpp"
#include "model/collecting_writer.hpp"
#include "model/formats/archive_format.hpp"

namespace cfck::interop {
namespace {

class CountingSink final : public ByteSink {
 public:
  Result<void> write(ByteView bytes) override {
    n_bytes += bytes.size();
    return {};
  }
  std::uint64_t n_bytes = 0;
};

// A member besides the weights.
struct Member {
  std::string name;
  std::vector<std::byte> bytes;
};

class KerasWriter final : public model::CollectingWriter {
 public:
  KerasWriter(ByteSink& sink, const EncodeOptions& options) : sink_(sink), options_(options) {}

  Result<ArchiveSummary> finish() override {
    CFCK_TRY(contents_.finish());
    CFCK_TRY_ASSIGN(const std::vector<Member> members, other_members());
    CountingSink counted;
    CFCK_TRY(write_weights(counted, {}));
    std::vector<ZipItem> items;
    for (const Member& member : members) items.push_back({member.name, member.bytes.size()});
    items.push_back({std::string(kKerasWeights), counted.n_bytes});
    ZipSink zip(sink_, std::move(items));
    for (const Member& member : members) CFCK_TRY(zip.write(member.bytes));
    CFCK_TRY_ASSIGN(ArchiveSummary summary, write_weights(zip, progress_));
    CFCK_TRY(zip.finish());
    summary.file_bytes = zip.file_bytes();
    return summary;
  }

 private:
  // In the order of Keras: metadata, config, then the others.
  Result<std::vector<Member>> other_members() {
    std::vector<Member> members;
    for (const Attachment& attachment : contents_.attachments()) {
      if (!attachment.name.starts_with(kKerasPrefix)) continue;
      Member member{attachment.name.substr(kKerasPrefix.size()), {}};
      if (!is_safe_member_name(member.name) || member.name == kKerasWeights) {
        return corrupt("an attachment has the name of no member of an archive of Keras: '" +
                       escaped(attachment.name) + "'");
      }
      CFCK_TRY_ASSIGN(member.bytes, contents_.attachment(attachment.name));
      members.push_back(std::move(member));
    }
    const auto place = [](const Member& member) {
      return member.name == kKerasMetadata ? 0 : member.name == kKerasConfig ? 1 : 2;
    };
    std::stable_sort(members.begin(), members.end(),
                     [&](const Member& a, const Member& b) { return place(a) < place(b); });
    if (members.size() < 2 || members[0].name != kKerasMetadata ||
        members[1].name != kKerasConfig) {
      return unsupported(
          "an archive of Keras has the model beside its weights, which only a file that was made "
          "of one has; write model.weights.h5, and load it with model.load_weights()");
    }
    return members;
  }

  Result<ArchiveSummary> write_weights(ByteSink& sink, const WriteProgress& progress) {
    CFCK_TRY_ASSIGN(const auto writer, model::hdf5_format().create(sink, options_));
    writer->set_progress(progress);
    CFCK_TRY(writer->add_archive(contents_));
    return writer->finish();
  }

  ByteSink& sink_;
  EncodeOptions options_;
};

}  // namespace

Result<std::unique_ptr<ArchiveWriter>> create_keras_writer(ByteSink& sink,
                                                           const EncodeOptions& options) {
  return std::unique_ptr<ArchiveWriter>(std::make_unique<KerasWriter>(sink, options));
}

}  // namespace cfck::interop
