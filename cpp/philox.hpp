// Normals by number: Philox4x32-10 (Salmon et al., 2011) and Box-Muller. A row's draw depends on seed, sweep, side, row
// and column alone, so threads and the order of rows change no bit of it.
#pragma once
#include <cmath>
#include <cstdint>

#include "row.hpp"

namespace halfstep::HALFSTEP_ISA {

struct Philox {
  uint32_t x[4];

  Philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) : x{c0, c1, c2, c3} {
    uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      const uint64_t a = uint64_t(0xD2511F53u) * x[0], b = uint64_t(0xCD9E8D57u) * x[2];
      const uint32_t y0 = uint32_t(b >> 32) ^ x[1] ^ k0, y2 = uint32_t(a >> 32) ^ x[3] ^ k1;
      x[0] = y0, x[1] = uint32_t(b), x[2] = y2, x[3] = uint32_t(a);
    }
  }
};

// Adds standard normals to b[0..f) of row i; four columns share a block.
template <class T>
inline void add_normals(const Noise& noise, int64_t i, int f, T* b) {
  constexpr double unit = 1.0 / 4294967296.0, turn = 6.283185307179586 * unit;
  const uint64_t row = uint64_t(noise.first_row + i);
  for (int c = 0; c < f; c += 4) {
    const Philox block(noise.seed, uint32_t(c / 4), uint32_t(row), uint32_t(row >> 32) << 1 | noise.side, noise.sweep);
    double normal[4];
    for (int pair = 0; pair < 4; pair += 2) {
      const double radius = std::sqrt(-2 * std::log((block.x[pair] + 0.5) * unit));  // never the logarithm of zero
      const double angle = (block.x[pair + 1] + 0.5) * turn;
      normal[pair] = radius * std::cos(angle), normal[pair + 1] = radius * std::sin(angle);
    }
    for (int k = 0; k < 4 && c + k < f; ++k) b[c + k] += T(normal[k]);
  }
}

}  // namespace halfstep::HALFSTEP_ISA
