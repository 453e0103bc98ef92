// Values of a checkpoint as JSON and back (spec/checkpoint.md, section 2).
#pragma once

#include <string>

#include "cfck/checkpoint.hpp"
#include "model/checkpoint/json_node.hpp"

namespace cfck::model {

// Returns the value of a node, which is taken apart. References to containers are not checked.
// Errors: kCorrupt, kUnsupported for a tag of a newer version.
Result<CheckpointValue> value_of(JsonNode&& node);
// The same for a key of a dict or an element of a set.
Result<CheckpointValue> key_of(JsonNode&& node, int depth = 0);

// Appends the JSON of a value. Error: kInvalidArgument for what value_of() would refuse.
Result<void> append_value(std::string& json, const CheckpointValue& value);
// The same for a key.
Result<void> append_key(std::string& json, const CheckpointValue& key, int depth = 0);

}  // namespace cfck::model
