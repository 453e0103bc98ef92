// Reads the tables of errors and qualities (spec/format.md, section 5.4).
#pragma once

#include "cfck/record.hpp"
#include "format/container/frame_fields.hpp"

namespace cfck::format {

// Reads the bound of a lossy record and its errors, except its quality. Requires: the codec of
// `record`; a whole entry left in `fields`. Errors: kCorrupt.
Result<RecordError> take_bound(FieldReader& fields, const Record& record);
// Reads the target, and what errors are compared with. Requirements and errors are as above.
Result<RecordQuality> take_quality(FieldReader& fields, const Record& record);

}  // namespace cfck::format
