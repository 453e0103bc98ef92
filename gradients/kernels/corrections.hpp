// Momentum correction of single values: what a momentum u becomes, and what v becomes with it.
#pragma once

namespace cfck::gradients {

struct PlainMomentum {
  float m;
  float momentum(float g, float u) const { return m * u + g; }
  float value(float g, float u, float v) const { return v + momentum(g, u); }
};

struct NesterovMomentum {
  float m;
  float momentum(float g, float u) const { return m * (u + g); }
  float value(float g, float u, float v) const { return v + momentum(g, u) + g; }
};

}  // namespace cfck::gradients
