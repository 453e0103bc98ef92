// Reads the tables of errors and qualities (spec/format.md, section 5.4).
#pragma once

#include "cfck/record.hpp"
#include "format/container/frame_fields.hpp"

namespace cfck::format {

enum class Presence : std::uint8_t { kNever, kAllowed, kAlways };

// The entries that records of a codec have in the tables of errors and qualities, where they have
// values, and what else the format demands of them.
struct CodecRules {
  Presence error = Presence::kAllowed;
  Presence quality = Presence::kAllowed;
  Presence preamble = Presence::kAllowed;
  Presence base = Presence::kAllowed;  // a digest in the table of bases
  bool may_promise_nothing = true;     // bounds of kind none
};
// The format gives the rules by id (spec/format.md, sections "Records" and "Errors"), also to
// readers without the codec: so they are a table here, and no question to the codec. Codecs of
// later versions may do anything.
CodecRules rules_of(CodecId codec) noexcept;

// Reads the bound of a lossy record and its errors, except its quality. Requires: the codec of
// `record`; a whole entry left in `fields`. Errors: kCorrupt.
Result<RecordError> take_bound(FieldReader& fields, const Record& record);
// Reads the target, and what errors are compared with. Requirements and errors are as above.
Result<RecordQuality> take_quality(FieldReader& fields, const Record& record);

}  // namespace cfck::format
