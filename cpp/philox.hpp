// Random numbers by number: Philox4x32-10 (Salmon et al., 2011). A draw depends on seed, sweep, side, row and column or
// cell alone, so threads and the order of rows change no bit of it.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "row.hpp"

namespace halfstep::HALFSTEP_ISA {

constexpr int philox_lanes = 8;  // blocks that are made side by side

// Four words of each of `philox_lanes` blocks; x holds their counters and becomes the words.
inline void philox(uint64_t key, uint32_t (&x)[4][philox_lanes]) {
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
    for (int v = 0; v < philox_lanes; ++v) {
      const uint64_t a = uint64_t(0xD2511F53u) * x[0][v], b = uint64_t(0xCD9E8D57u) * x[2][v];
      x[0][v] = uint32_t(b >> 32) ^ x[1][v] ^ k0, x[1][v] = uint32_t(b);
      x[2][v] = uint32_t(a >> 32) ^ x[3][v] ^ k1, x[3][v] = uint32_t(a);
    }
}

// Minus the logarithm of (word + 1/2) / 2^32, by the series of artanh; never that of zero.
inline float minus_log(uint32_t word) {
  const float u = (float(word) + 0.5f) * 0x1p-32f;
  int32_t bits;
  std::memcpy(&bits, &u, 4);
  const int32_t exponent = (bits - 0x3F3504F3) >> 23;  // the mantissa lies about 1, between the roots of 1/2 and 2
  bits -= exponent * (1 << 23);
  float m;
  std::memcpy(&m, &bits, 4);
  const float s = (m - 1) / (m + 1), q = s * s;
  const float series = 2 + q * (2.0f / 3 + q * (2.0f / 5 + q * (2.0f / 7 + q * (2.0f / 9))));
  return -(float(exponent) * 0.69314718056f + s * series);
}

// Two independent standard normals from two words, by Box and Muller: sine and cosine on an eighth of a turn to both
// sides, their series, and the quarter from the two highest bits.
inline void two_normals(uint32_t first, uint32_t second, float& one, float& two) {
  const float radius = std::sqrt(2 * minus_log(first));
  const float t = (float(int32_t(second & 0x3FFFFFFFu)) + 0.5f) * 0x1p-30f - 0.5f;
  const float x = t * 1.57079632679f, q = x * x;
  const float s = x * (1 + q * (-1.0f / 6 + q * (1.0f / 120 + q * (-1.0f / 5040 + q * (1.0f / 362880)))));
  const float c = 1 + q * (-0.5f + q * (1.0f / 24 + q * (-1.0f / 720 + q * (1.0f / 40320))));
  const bool swap = second & 0x40000000u;
  const float sign = second & 0x80000000u ? -radius : radius;
  one = sign * (swap ? -s : c), two = sign * (swap ? c : s);
}

// Adds standard normals to b[0..f) of row i; four columns share a block.
template <class T>
inline void add_normals(const Noise& noise, int64_t i, int f, T* b) {
  const uint64_t row = uint64_t(noise.first_row + i);
  for (int c = 0; c < f; c += 4 * philox_lanes) {
    uint32_t x[4][philox_lanes];
    for (int v = 0; v < philox_lanes; ++v) {
      x[0][v] = uint32_t(c / 4 + v), x[1][v] = uint32_t(row);
      x[2][v] = uint32_t(row >> 32) << 1 | noise.side, x[3][v] = noise.sweep;
    }
    philox(noise.seed, x);
    float normal[4][philox_lanes];
    for (int pair = 0; pair < 4; pair += 2)
      for (int v = 0; v < philox_lanes; ++v)
        two_normals(x[pair][v], x[pair + 1][v], normal[pair][v], normal[pair + 1][v]);
    const int end = f - c < 4 * philox_lanes ? f - c : 4 * philox_lanes;
    for (int k = 0; k < end; ++k) b[c + k] += T(normal[k % 4][k / 4]);
  }
}

// The numbers of one cell, as many as are asked for: cell `place` of a row, on a stream apart from that of columns.
class CellStream {
 public:
  CellStream(const Noise& noise, int64_t i, int64_t place)
      : seed(noise.seed), row(uint64_t(noise.first_row + i)), number(uint32_t(place)), sweep(noise.sweep) {}

  uint32_t word() {
    if (left == 0) refill();
    return words[--left];
  }
  float uniform() { return (float(word() >> 8) + 0.5f) * 0x1p-24f; }  // in (0, 1)
  float exponential() { return minus_log(word()); }
  float normal() {
    if (kept) return kept = false, spare;
    float one;
    const uint32_t first = word();
    two_normals(first, word(), one, spare);
    kept = true;
    return one;
  }

 private:
  void refill() {
    uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
    uint32_t a0 = 1u << 31 | block++, a1 = uint32_t(row), a2 = number, a3 = sweep;
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      const uint64_t a = uint64_t(0xD2511F53u) * a0, b = uint64_t(0xCD9E8D57u) * a2;
      a0 = uint32_t(b >> 32) ^ a1 ^ k0, a1 = uint32_t(b);
      a2 = uint32_t(a >> 32) ^ a3 ^ k1, a3 = uint32_t(a);
    }
    words[0] = a3, words[1] = a2, words[2] = a1, words[3] = a0, left = 4;
  }

  uint64_t seed, row;
  uint32_t number, sweep, block = 0, words[4];
  int left = 0;
  bool kept = false;
  float spare = 0;
};

}  // namespace halfstep::HALFSTEP_ISA
