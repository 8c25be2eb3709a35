// Vectors of the widest width this instruction set has, through the compiler's vector types; no intrinsics.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

namespace halfstep::HALFSTEP_ISA {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64;
#elif defined(__AVX__)
constexpr int vector_bytes = 32;
#else
constexpr int vector_bytes = 16;
#endif

template <class T>
struct Simd {
  static constexpr int width = vector_bytes / sizeof(T);
  typedef T type __attribute__((vector_size(vector_bytes)));
  typedef T loose __attribute__((vector_size(vector_bytes), aligned(alignof(T)), may_alias));
};
template <class T>
using Vec = typename Simd<T>::type;
template <class T>
constexpr int width = Simd<T>::width;

template <class T>
inline Vec<T> load(const T* p) {
  return *reinterpret_cast<const typename Simd<T>::loose*>(p);
}
template <class T>
inline void store(T* p, Vec<T> v) {
  *reinterpret_cast<typename Simd<T>::loose*>(p) = v;
}
// Half a vector, for what is left of a row behind its whole ones.
template <class T>
struct HalfVec {
  static constexpr int width = Simd<T>::width / 2;
  typedef T type __attribute__((vector_size(vector_bytes / 2), aligned(alignof(T)), may_alias));
  static type load(const T* p) { return *reinterpret_cast<const type*>(p); }
  static void store(T* p, type v) { *reinterpret_cast<type*>(p) = v; }
};

// The sum of the first 2 step lanes, halves onto halves.
template <class T, int step, size_t... I>
inline T folded_sum(Vec<T> v, std::index_sequence<I...> lanes) {
  v += __builtin_shufflevector(v, v, ((int(I) + step) % Simd<T>::width)...);
  if constexpr (step > 1)
    return folded_sum<T, step / 2>(v, lanes);
  else
    return v[0];
}
template <class T>
inline T horizontal_sum(Vec<T> v) {
  return folded_sum<T, width<T> / 2>(v, std::make_index_sequence<size_t(width<T>)>());
}

// The largest lane, none of which is NaN: each round turns the vector by half of what is left.
template <class T, int by, size_t... I>
inline Vec<T> turned(Vec<T> v, std::index_sequence<I...>) {
  return __builtin_shufflevector(v, v, ((int(I) + by) % width<T>)...);
}
template <class T, int by = width<T> / 2>
inline T largest_lane(Vec<T> v) {
  if constexpr (by == 0) {
    return v[0];
  } else {
    const Vec<T> other = turned<T, by>(v, std::make_index_sequence<size_t(width<T>)>());
    return largest_lane<T, by / 2>(other > v ? other : v);
  }
}

constexpr int round_up(int n, int step) { return (n + step - 1) / step * step; }

// A leading dimension of an odd number of cache lines, so that walking down a column does not hit one cache set.
template <class T>
constexpr int padded(int columns) {
  const int line = 64 / sizeof(T);
  const int lines = round_up(columns, line) / line;
  return (lines | 1) * line;
}

template <class T>
inline T long_dot(const T* a, const T* b, int n) {
  constexpr int w = width<T>;
  Vec<T> s0 = {}, s1 = {};
  int i = 0;
  for (; i + 2 * w <= n; i += 2 * w) {
    s0 += load(a + i) * load(b + i);
    s1 += load(a + i + w) * load(b + i + w);
  }
  if (i + w <= n) s0 += load(a + i) * load(b + i), i += w;
  T tail = 0;
  for (; i < n; ++i) tail += a[i] * b[i];
  return horizontal_sum<T>(s0 + s1) + tail;
}

template <class T>
inline T dot(const T* a, const T* b, int n) {
  if (n >= width<T>) return long_dot(a, b, n);
  T sum = 0;  // a few pinned columns, usually: nothing to sum across
  for (int i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

template <class T>
inline void axpy(T scale, const T* x, T* y, int n) {
  constexpr int w = width<T>;
  int i = 0;
  for (; i + w <= n; i += w) store(y + i, load(y + i) + scale * load(x + i));
  for (; i < n; ++i) y[i] += scale * x[i];
}

// `height` rows of as many values at a time, for rows shorter than a vector.
template <class T, int height>
struct ShortVec {
  typedef T type __attribute__((vector_size(height * sizeof(T))));
  typedef T loose __attribute__((vector_size(height * sizeof(T)), aligned(alignof(T)), may_alias));
};

// The values of rows i, i + height, i + 2 height .. from k on, one row after the other: n of them.
template <class T, int height, int n, class Row, size_t... I>
inline typename ShortVec<T, n>::type side_by_side(Row row, int i, int k, std::index_sequence<I...>) {
  if constexpr (n == height) {
    return *reinterpret_cast<const typename ShortVec<T, height>::loose*>(row(i) + k);
  } else {
    constexpr auto half = std::make_index_sequence<size_t(n / 2)>();
    return __builtin_shufflevector(side_by_side<T, height, n / 2>(row, i, k, half),
                                   side_by_side<T, height, n / 2>(row, i + n / 2, k, half), int(I)...);
  }
}

// In place, within each block of `height` lanes: v[i][j] <-> v[j][i], one bit of i and j after the other.
template <class T, int bit, size_t... I>
inline void exchange(Vec<T>& a, Vec<T>& b, std::index_sequence<I...>) {
  constexpr int w = width<T>;
  const Vec<T> low = a, high = b;
  a = __builtin_shufflevector(low, high, (int(I) & bit ? w + (int(I) ^ bit) : int(I))...);
  b = __builtin_shufflevector(low, high, (int(I) & bit ? w + int(I) : int(I) ^ bit)...);
}
template <class T, int height, int bit = 1>
inline void transpose(Vec<T> (&v)[height]) {
#pragma GCC unroll 16
  for (int i = 0; i < height; ++i)
    if (!(i & bit)) exchange<T, bit>(v[i], v[i | bit], std::make_index_sequence<size_t(width<T>)>());
  if constexpr (2 * bit < height) transpose<T, height, 2 * bit>(v);
}

// Lane j is the sum of all lanes of v[j], for j < count; v is lost.
template <class T, int count, int bit = 1>
inline Vec<T> sum_each(Vec<T> (&v)[count]) {
  constexpr auto lanes = std::make_index_sequence<size_t(width<T>)>();
#pragma GCC unroll 16
  for (int i = 0; i < count; i += 2 * bit) {
    if constexpr (bit < count)
      exchange<T, bit>(v[i], v[i + bit], lanes), v[i] += v[i + bit];
    else
      v[i] += turned<T, bit>(v[i], lanes);
  }
  if constexpr (2 * bit < width<T>)
    return sum_each<T, count, 2 * bit>(v);
  else
    return v[0];
}

// to[j] += the sum of all lanes of v[j], in float64; `count` a power of two, v is lost.
template <class T, int count>
inline void add_sums(Vec<T> (&v)[count], double* to) {
  constexpr int some = count < width<T> ? count : width<T>;
  for (int i = 0; i < count; i += some) {
    const Vec<T> sums = sum_each<T, some>(*reinterpret_cast<Vec<T>(*)[some]>(v + i));
    for (int j = 0; j < some; ++j) to[i + j] += sums[j];
  }
}

// width<double> values, as float64.
template <class T>
inline Vec<double> load_wide(const T* p) {
  return __builtin_convertvector(*reinterpret_cast<const typename ShortVec<T, width<double>>::loose*>(p), Vec<double>);
}
// a'b in float64, where what lies behind n values is zero up to a whole vector.
template <class T>
inline double dot_wide(const T* a, const T* b, int n) {
  Vec<double> sum = {};
  for (int i = 0; i < n; i += width<double>) sum += load_wide(a + i) * load_wide(b + i);
  return horizontal_sum<double>(sum);
}

}  // namespace halfstep::HALFSTEP_ISA
