// Arrays as Python hands them over. They are taken as they are, never converted: a silent copy of an output would
// swallow the result.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/variant.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <variant>

#include "row.hpp"

namespace nb = nanobind;

namespace halfstep {

template <class T>
using Array = nb::ndarray<T, nb::numpy, nb::c_contig, nb::device::cpu>;
template <class T>
using In = Array<const T>;
template <class T>
using MaybeIn = std::optional<In<T>>;
template <class T>
using Strided = nb::ndarray<const T, nb::numpy, nb::device::cpu>;  // a table, whose rows may be columns of an array

inline void expect(bool holds, const char* what) {
  if (!holds) throw nb::value_error(what);
}

// The columns of a matrix.
template <class Matrix>
int columns_of(const Matrix& x, const char* what) {
  expect(x.ndim() == 2, what);
  expect(x.shape(1) <= size_t(max_columns), "at most 32768 columns");
  return int(x.shape(1));
}

// A vector of the given length, or null where there is none.
template <class T>
const T* vector_of(const MaybeIn<T>& values, size_t length, const char* what) {
  if (!values) return nullptr;
  expect(values->ndim() == 1 && values->shape(0) == length, what);
  return values->data();
}

// Offsets of so many rows into so many cells. Whoever follows them stays within the cells.
inline void expect_offsets(const In<int64_t>& indptr, int64_t rows, int64_t cells, const char* what) {
  expect(rows >= 0 && indptr.ndim() == 1 && int64_t(indptr.shape(0)) == rows + 1, what);
  const int64_t* starts = indptr.data();
  expect(starts[0] == 0 && starts[rows] == cells, what);
  for (int64_t i = 0; i < rows; ++i) expect(starts[i] <= starts[i + 1], what);
}

// Numbers of rows of something that has so many.
template <class Int>
void expect_places(const In<Int>& places, int64_t below, const char* what) {
  typedef Int Some __attribute__((vector_size(16), aligned(alignof(Int)), may_alias));
  constexpr size_t w = sizeof(Some) / sizeof(Int);
  expect(places.ndim() == 1, what);
  const Int* place = places.data();
  const Int last = Int(std::min<int64_t>(below - 1, std::numeric_limits<Int>::max()));
  const size_t n = places.shape(0);
  Some outside = {};
  size_t k = 0;
  for (; k + w <= n; k += w) {  // every half-step asks
    const Some some = *reinterpret_cast<const Some*>(place + k);
    outside |= (some < 0) | (some > last);
  }
  for (; k < n; ++k) outside[0] |= place[k] < 0 || place[k] > last;
  for (size_t j = 0; j < w; ++j) expect(!outside[j], what);
}

// A new array, not filled.
template <class T, size_t N>
Array<T> make(const size_t (&shape)[N]) {
  size_t size = 1;
  for (size_t length : shape)
    if (__builtin_mul_overflow(size, length, &size)) throw std::bad_alloc();
  std::unique_ptr<T[]> data(new T[size ? size : 1]);
  nb::capsule owner(data.get(), [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return Array<T>(data.release(), N, shape, owner);
}

}  // namespace halfstep
