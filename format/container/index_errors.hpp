// The tables of errors and qualities (spec/format.md, section 5.4), read.
#pragma once

#include "cfck/record.hpp"
#include "format/container/frame_fields.hpp"

namespace cfck::format {

// What was asked of a lossy record and what it lost, but for its quality. Requires: the
// codec of `record`; a whole entry left in `fields`. Errors: kCorrupt.
Result<RecordError> take_bound(FieldReader& fields, const Record& record);
// The target, and what errors are compared with. Likewise.
Result<RecordQuality> take_quality(FieldReader& fields, const Record& record);

}  // namespace cfck::format
