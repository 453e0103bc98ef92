// Targets as arguments of a command.
#pragma once

#include <CLI/CLI.hpp>
#include <array>

#include "cfck/options.hpp"

namespace cfck::tools {

inline constexpr std::array kTargetArguments = {
    "--quality", "--nmse",           "--psnr",  "--bits-per-weight",
    "--size",    "--trellis-states", "--steps", "--calibration"};

void add_targets(CLI::App& app, EncodeOptions& encode);

}  // namespace cfck::tools
