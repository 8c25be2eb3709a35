// Products of a row's cells with a vector, several cells at a time: what is loaded of the vector, or of the sum, serves
// all of them. The rows of the cells stay where they are; only their places are gathered.
#pragma once
#include "simd.hpp"

namespace halfstep::HALFSTEP_ISA {

template <class T>
constexpr int group_cells = width<T> < 8 ? width<T> : 8;

template <class T>
using Group = const T * [group_cells<T>];

// z[g] = x[g]'v for f columns.
template <class T>
inline void group_scores(const Group<T>& x, const T* v, int f, T* z) {
  constexpr int G = group_cells<T>, w = width<T>;
  Vec<T> sum[G] = {};
  int c = 0;
  for (; c + w <= f; c += w) {
    const Vec<T> at = load(v + c);
#pragma GCC unroll 8
    for (int g = 0; g < G; ++g) sum[g] += load(x[g] + c) * at;
  }
  T part[w];
  store(part, sum_each<T, G>(sum));
  for (int g = 0; g < G; ++g) {
    z[g] = part[g];
    for (int t = c; t < f; ++t) z[g] += x[g][t] * v[t];
  }
}

// out += sum_g by[g] x[g] for f columns.
template <class T>
inline void add_group(const Group<T>& x, const T* by, int f, T* out) {
  constexpr int G = group_cells<T>, w = width<T>;
  int c = 0;
  for (; c + w <= f; c += w) {
    Vec<T> sum = load(out + c), other = {};
#pragma GCC unroll 8
    for (int g = 0; g < G; g += 2) sum += by[g] * load(x[g] + c), other += by[g + 1] * load(x[g + 1] + c);
    store(out + c, sum + other);
  }
  for (; c < f; ++c)
    for (int g = 0; g < G; ++g) out[c] += by[g] * x[g][c];
}

// body(k, x) for every group: its first cell and its rows. A short last group repeats the last row.
template <class T, class RowAt, class Body>
inline void for_groups(int64_t n, RowAt row, Body body) {
  constexpr int G = group_cells<T>;
  for (int64_t k = 0; k < n; k += G) {
    Group<T> x;
    for (int g = 0; g < G; ++g) x[g] = row(k + g < n ? k + g : n - 1);
    body(k, x);
  }
}

}  // namespace halfstep::HALFSTEP_ISA
