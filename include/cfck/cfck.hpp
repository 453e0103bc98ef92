// Everything: compressed, checked files of tensors. See spec/format.md for the
// bytes, and examples/ for programs to start from.
#pragma once

#include "cfck/archive.hpp"
#include "cfck/archive_writer.hpp"
#include "cfck/calibration.hpp"
#include "cfck/checkpoint.hpp"
#include "cfck/cuda.hpp"
#include "cfck/device.hpp"
#include "cfck/dtype.hpp"
#include "cfck/export.hpp"
#include "cfck/io.hpp"
#include "cfck/loss_warnings.hpp"
#include "cfck/options.hpp"
#include "cfck/owned_tensor.hpp"
#include "cfck/reader.hpp"
#include "cfck/record.hpp"
#include "cfck/safetensors.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"
#include "cfck/update.hpp"
#include "cfck/version.hpp"
#include "cfck/writer.hpp"
