// Products of bytes by the instructions that CPUs have for them, chosen at run time.
#include "bytes.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

namespace halfstep {
namespace {

#define HALFSTEP_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define HALFSTEP_AVX2 __attribute__((target("avx2")))

// One instruction multiplies 64 pairs and adds them up in fours.
HALFSTEP_VNNI void above_vnni(int K, const int32_t* left, ptrdiff_t ld, const int32_t* right, const int32_t* bars,
                              uint64_t* above) {
  constexpr int w = 16, vectors = byte_columns / w;
  __m512i sum[byte_rows][vectors];
#pragma GCC unroll 6
  for (int r = 0; r < byte_rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sum[r][v] = _mm512_setzero_si512();
  for (int k = 0; k < K; k += 4, left += ld, right += byte_columns) {
    __m512i b[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) b[v] = _mm512_loadu_si512(right + v * w);
#pragma GCC unroll 6
    for (int r = 0; r < byte_rows; ++r) {
      const __m512i a = _mm512_set1_epi32(left[r]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], b[v], a);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < byte_rows; ++r) {
    const __m512i bar = _mm512_set1_epi32(bars[r]);
    uint64_t found = 0;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) found |= uint64_t(_mm512_cmpgt_epi32_mask(sum[r][v], bar)) << (v * w);
    above[r] = found;
  }
}

// Products are added up in pairs of 16 bits, of which two fit before they are widened.
HALFSTEP_AVX2 void above_avx2(int K, const int32_t* left, ptrdiff_t ld, const int32_t* right, const int32_t* bars,
                              uint64_t* above) {
  constexpr int w = 8;
  const __m256i ones = _mm256_set1_epi16(1);
  for (int r = 0; r < byte_rows; ++r) above[r] = 0;
  for (int c = 0; c < byte_columns; c += w) {
    __m256i sum[byte_rows];
#pragma GCC unroll 6
    for (int r = 0; r < byte_rows; ++r) sum[r] = _mm256_setzero_si256();
    const int32_t *a = left, *b = right + c;
    for (int k = 0; k < K; k += 8, a += 2 * ld, b += 2 * byte_columns) {
      const __m256i b0 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b));
      const __m256i b1 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + byte_columns));
#pragma GCC unroll 6
      for (int r = 0; r < byte_rows; ++r) {
        const __m256i p0 = _mm256_maddubs_epi16(b0, _mm256_set1_epi32(a[r]));
        const __m256i p1 = _mm256_maddubs_epi16(b1, _mm256_set1_epi32(a[ld + r]));
        sum[r] = _mm256_add_epi32(sum[r], _mm256_madd_epi16(_mm256_add_epi16(p0, p1), ones));
      }
    }
#pragma GCC unroll 6
    for (int r = 0; r < byte_rows; ++r) {
      const __m256i found = _mm256_cmpgt_epi32(sum[r], _mm256_set1_epi32(bars[r]));
      above[r] |= uint64_t(uint32_t(_mm256_movemask_ps(_mm256_castsi256_ps(found)))) << c;
    }
  }
}

constexpr ByteProducts vnni = {127, 127, above_vnni};
constexpr ByteProducts avx2 = {64, 63, above_avx2};

}  // namespace

const ByteProducts* byte_products(bool wide) {
  if (wide && __builtin_cpu_supports("avx512vnni")) return &vnni;
  return __builtin_cpu_supports("avx2") ? &avx2 : nullptr;
}

}  // namespace halfstep

#else

namespace halfstep {
const ByteProducts* byte_products(bool) { return nullptr; }
}  // namespace halfstep

#endif
