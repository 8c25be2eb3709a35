// The doors between the binding and the row kernels: one table of functions for each instruction set and number type.
#pragma once
#include <cstddef>

#include "bytes.hpp"
#include "row.hpp"

namespace halfstep {

// What is known of the rows of `right` in bytes, in blocks of byte_columns by falling length.
struct Screen {
  const ByteProducts* products = nullptr;
  int K = 0, mixed = 1;                                          // columns in bytes, and how many of them are mixed
  const int32_t* order = nullptr;                                // rows of `right`, the longest first
  int32_t* bytes = nullptr;                                      // blocks x K/4 x byte_columns
  double *scale = nullptr, *length = nullptr, *error = nullptr;  // of each block: bytes.hpp and bars of top.hpp
};

// The best k rows of `right` for each row of `left`, by dot product.
template <class T>
struct TopK {
  const T *left = nullptr, *right = nullptr;
  const int64_t* rows = nullptr;  // rows of `left` to answer for, or null for all
  int64_t n_right = 0;
  int d = 0, k = 0;
  const int64_t* seen_indptr = nullptr;  // sorted indices never returned, or null
  const int32_t* seen_indices = nullptr;
  const Screen* screen = nullptr;  // or null: every score is computed
  T* scores = nullptr;             // answered rows x k
  int32_t* indices = nullptr;      // answered rows x k
};

// For each row i of `left`, over its cells with weights w, the sums of w, w e, w x, w e^2, w e x and w x^2, where
// e = target - left[i] . right[j] and x = moved[i] . right[j] + base[i].
template <class T>
struct Residuals {
  const T *left = nullptr, *moved = nullptr, *base = nullptr, *right = nullptr;
  int d = 0;
  const int64_t* indptr = nullptr;
  const int32_t* indices = nullptr;
  const T *targets = nullptr, *weights = nullptr;  // weights may be null: 1
  double* sums = nullptr;                          // rows x 6
  T *e = nullptr, *x = nullptr;                    // cells, or null
};

// Cells whose weights or targets are drawn: `values` are residuals or scores, `given` sample weights or null.
template <class T>
struct DrawnCells {
  const int64_t* indptr = nullptr;
  const T *values = nullptr, *given = nullptr;
  const int32_t* codes = nullptr;  // classes 0 .. K - 1
  const double* cuts = nullptr;    // K + 1, from -inf to inf
  double nu = 0, alpha = 1;
  Noise noise;
  T* out = nullptr;
};

// Features F (n x p, CSR) of rows b_i, and the weights W (p x f) that predict them; regression.hpp.
constexpr int strip_columns = 16;
template <class T>
struct Regression {
  int64_t n = 0, p = 0;
  int f = 0;
  const int64_t* indptr = nullptr;
  const int32_t* indices = nullptr;
  const T *values = nullptr, *rows = nullptr, *lam = nullptr;  // cells; n x f; n
  const T* diagonal = nullptr;                                 // p: of F'DF + eta I
  T *weights = nullptr, *fitted = nullptr;                     // W p x f and F W n x f: start in, solution out
  T *step = nullptr, *moved = nullptr;                         // what moved them last, likewise
  T eta = 0;
  double tolerance = 0;  // the last step is the one that gains less than this share of sum lam |b|^2
  int max_steps = 0;
};

template <class T>
struct Kernels {
  void* (*open)(const HalfStep<T>&);  // a worker's scratch
  void (*close)(void*);
  void (*rows)(const HalfStep<T>&, int64_t first, int64_t last, bool evaluate, void* scratch, Sums&);
  // The quadratics of rows first..last on their cells k0..k1; of one row, or of a block of a table.
  size_t (*part_size)(const HalfStep<T>&, int64_t rows);
  void (*part)(const HalfStep<T>&, int64_t first, int64_t last, int64_t k0, int64_t k1, void* scratch, T* out);
  void (*add_part)(const HalfStep<T>&, int64_t rows, T* part, void* scratch, double* out);
  void (*finish)(const HalfStep<T>&, int64_t first, int64_t last, T* const* parts, int count, void* scratch, Sums&);
  // The rows first..last from the quadratics of all their cells, each (f + 1) x f.
  void (*finish_whole)(const HalfStep<T>&, int64_t first, int64_t last, const double* quadratics, void* scratch, Sums&);
  void (*evaluate)(const HalfStep<T>&, int64_t first, int64_t last, int64_t k0, int64_t k1, void* scratch, Sums&);
  void (*gram)(const T* x, int64_t n, int d, double* out);
  void (*rotate)(T* x, int64_t n, int d, int start, int f, const T* basis);
  void (*in_bytes)(const TopK<T>&, const Screen&, int64_t block);  // fills a block of the screen
  void (*top)(const TopK<T>&, int64_t first, int64_t last);
  void (*pairs)(const T* left, const T* right, int d, const int64_t* rows, const int64_t* columns, int64_t n, T* out);
  // What a sampler does with cells between half-steps: rows first..last, or cells.
  void (*residuals)(const Residuals<T>&, int64_t first, int64_t last);
  void (*weights)(const DrawnCells<T>&, int64_t first, int64_t last);
  void (*latent)(const DrawnCells<T>&, int64_t first, int64_t last);
  void (*classes)(const T* z, const int32_t* codes, const double* cuts, int classes, int64_t first, int64_t last,
                  double* out);
  int (*regress)(const Regression<T>&, int first);  // a strip of the columns of W, from the first one; its steps
};

// Those of the instruction set in use.
template <class T>
const Kernels<T>& kernels();
template <>
const Kernels<float>& kernels<float>();
template <>
const Kernels<double>& kernels<double>();

struct InstructionSet {
  const char* name;
  Kernels<float> single;
  Kernels<double> twice;
  void (*philox)(uint64_t key, uint32_t (&words)[4][8]);
};

namespace baseline {
const InstructionSet& instruction_set();
}
namespace avx2 {
const InstructionSet& instruction_set();
}
namespace avx512 {
const InstructionSet& instruction_set();
}

}  // namespace halfstep
